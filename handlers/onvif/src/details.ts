import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'

const filterList = z.strictObject({
  items: z.array(z.string()).max(10_000),
  action: z.enum(['Include', 'Exclude']).default('Include'),
})

const network = z.string().transform((text, context) => {
  const result = readNetwork(text)
  if (result !== undefined) return result
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
  /** Filters by the first IPv4 address that the camera reports. */
  ipAddresses: filterList.optional(),
  macAddresses: filterList.optional(),
  /** A camera matches if at least one of its scopes is among the items. */
  scopes: filterList.optional(),
  uuids: filterList.optional(),
  /** How long a round waits for answers. @default 1 */
  discoveryTimeoutSeconds: z.number().int().min(1).max(60).default(1),
  /** Addresses that are probed directly: multicast does not pass a router. @default [] */
  probeAddresses: z.array(address).max(256).default([]),
  /**
   * Names of the network interfaces to probe on. @default all but the loopback interface and those
   * of container networks
   */
  interfaces: z
    .array(
      z.string().regex(/^[^\s/]{1,15}$/, 'write the name of a network interface, such as eth0'),
    )
    .min(1)
    .max(64)
    .optional(),
  /**
   * Networks of cameras, besides `probeAddresses`. @default the networks of the interfaces that are
   * probed on
   */
  allowedNetworks: z.array(network).max(256).optional(),
  /** Whether the certificates of cameras are verified. @default 'any' */
  certificates: z.enum(['any', 'verify']).default('any'),
  /** Certificates of trusted authorities, in PEM. @default the authorities of Node.js */
  certificateAuthorities: z.string().refine(isCertificate, 'write certificates in PEM').optional(),
  /** Whether media profiles and their URIs are read. @default false */
  mediaProfiles: z.boolean().default(false),
  /**
   * The parts of a device id. `url`: the URL of the device service, and the UUID. `uuid`: the UUID
   * alone. @default 'url'
   */
  deviceId: z.enum(['url', 'uuid']).default('url'),
  /** The time between two queries of a known camera. @default 600 */
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
