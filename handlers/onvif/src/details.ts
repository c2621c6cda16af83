import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { plainAddress } from '@akrijs/sdk/network'
import * as z from 'zod'
import { filterList, interfaceNames, network } from '../../details-fields.js'
import { bareHardwareAddress } from './device/hardware-address.js'
import { bareUuid } from './ws-discovery/index.js'

const address = z
  .string()
  .refine(
    (text) => isIP(text.replace(/%[\w.-]{1,15}$/, '')) > 0,
    'write an address, such as 192.168.1.64 or fd00::64',
  )

/** `discoveryDetails` of the ONVIF handler. */
export const onvifDetails = z.strictObject({
  ipAddresses: filterList(z.string().transform((text) => plainAddress(text.trim()))).describe(
    'A filter by the IPv4 address of the interface that the camera uses.',
  ),
  macAddresses: filterList(z.string().transform(bareHardwareAddress)).describe(
    'A filter by MAC address.',
  ),
  scopes: filterList().describe(
    'A filter by scope: a camera matches if at least one of its scopes is among the items.',
  ),
  uuids: filterList(z.string().transform(bareUuid)).describe('A filter by UUID.'),
  discoveryTimeoutSeconds: z
    .number()
    .default(1)
    .describe('How long a round waits for answers. A number is limited to 1 to 60.'),
  probeAddresses: z
    .array(address)
    .max(256)
    .default([])
    .describe('Addresses that are probed directly: multicast does not pass a router.'),
  interfaces: interfaceNames.describe(
    'Names of the network interfaces to probe on. Default: all but the loopback interface and ' +
      'those of container networks.',
  ),
  allowedNetworks: z
    .array(network)
    .max(256)
    .optional()
    .describe(
      'Networks of cameras, besides probeAddresses. Default: the networks of the interfaces that ' +
        'are probed on.',
    ),
  certificates: z
    .enum(['any', 'verify'])
    .default('any')
    .describe('Whether the certificates of cameras are verified.'),
  certificateAuthorities: z
    .string()
    .refine(isCertificate, 'write certificates in PEM')
    .optional()
    .describe('Certificates of trusted authorities, in PEM. Default: the authorities of Node.js.'),
  mediaProfiles: z
    .boolean()
    .default(false)
    .describe('Whether media profiles and their URIs are read.'),
  deviceId: z
    .enum(['url', 'uuid'])
    .default('url')
    .describe(
      'The parts of a device id. url: the URL of the device service, and the UUID. uuid: the ' +
        'UUID alone.',
    ),
  refreshSeconds: z
    .number()
    .int()
    .min(60)
    .max(86_400)
    .default(600)
    .describe('The time between two queries of a known camera.'),
})

export type OnvifDetails = z.infer<typeof onvifDetails>

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined
  } catch {
    return false
  }
}
