import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'

const filterList = z.strictObject({
  items: z.array(z.string()).max(10_000),
  action: z.enum(['Include', 'Exclude']).default('Include'),
})

const network = z.string().transform((text, context) => {
  const read = readNetwork(text)
  if (read !== undefined) return read
  context.addIssue({
    code: 'custom',
    message: 'write a network, such as 192.168.1.0/24 or fd00::/8, or one address',
  })
  return z.NEVER
})

const address = z
  .string()
  .refine(
    (text) => isIP(text.replace(/%[\w.-]{1,15}$/, '')) > 0,
    'write an address, such as 192.168.1.64 or fd00::64',
  )

/** `discoveryDetails` of the ONVIF handler. */
export const onvifDetails = z.strictObject({
  /** By the first IPv4 address that a camera says to have. */
  ipAddresses: filterList.optional(),
  macAddresses: filterList.optional(),
  /** A camera with several matches when one of them is among the items. */
  scopes: filterList.optional(),
  uuids: filterList.optional(),
  /** How long a round probes and waits for answers. @default 1 */
  discoveryTimeoutSeconds: z.number().int().min(1).max(60).default(1),
  /** Cameras that no multicast reaches, behind a router: asked directly. @default [] */
  probeAddresses: z.array(address).max(256).default([]),
  /** Names of the network interfaces to probe on. @default all but the loopback interface and those of container networks */
  interfaces: z
    .array(
      z.string().regex(/^[^\s/]{1,15}$/, 'write the name of a network interface, such as eth0'),
    )
    .min(1)
    .max(64)
    .optional(),
  /** Where cameras may be, besides `probeAddresses`. @default the networks of the interfaces that are probed on */
  allowedNetworks: z.array(network).max(256).optional(),
  /** Whether certificates of cameras with https are verified. @default 'any' */
  certificates: z.enum(['any', 'verify']).default('any'),
  /** In PEM: who may have signed them. @default those that Node.js comes with */
  certificateAuthorities: z.string().refine(isCertificate, 'write certificates in PEM').optional(),
  /** Whether to ask for media profiles and their URIs. @default false */
  mediaProfiles: z.boolean().default(false),
  /** What the id of a device is made of. `url`: the URL of its service and its UUID. `uuid`: its UUID alone. @default 'url' */
  deviceId: z.enum(['url', 'uuid']).default('url'),
  /** How often a camera is asked again who it is. @default 600 */
  refreshSeconds: z.number().int().min(60).max(86_400).default(600),
})

export type OnvifDetails = z.infer<typeof onvifDetails>

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined
  } catch {
    return false
  }
}
