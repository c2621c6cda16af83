import * as z from 'zod'
import { filterList, interfaceNames } from '../../details-fields.js'

/** `discoveryDetails` of the SSDP handler. */
export const ssdpDetails = z.strictObject({
  targets: z
    .array(
      z
        .string()
        .regex(
          /^[!-~]{1,255}$/,
          'write a search target, such as urn:schemas-upnp-org:device:MediaRenderer:1',
        ),
    )
    .min(1, 'name at least one search target, such as upnp:rootdevice')
    .max(16)
    .default(['upnp:rootdevice'])
    .transform((targets) => [...new Set(targets)])
    .describe(
      'Search targets: types of devices and services. upnp:rootdevice finds each device, ' +
        'ssdp:all its parts too.',
    ),
  uuids: filterList(
    z.string().transform((text) => text.toLowerCase().replace(/^uuid:/, '')),
  ).describe('A filter by UUID.'),
  interfaces: interfaceNames.describe(
    'Names of the network interfaces to search on. Default: all but the loopback interface and ' +
      'those of container networks.',
  ),
})

export type SsdpDetails = z.infer<typeof ssdpDetails>
