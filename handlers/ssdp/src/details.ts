import type { FilterList } from '@akrijs/sdk/network'
import * as z from 'zod'

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
  uuids: z
    .strictObject({
      items: z
        .array(z.string().transform((text) => text.toLowerCase().replace(/^uuid:/, '')))
        .max(10_000)
        .nullish(),
      action: z
        .enum(['Include', 'Exclude'])
        .nullish()
        .describe('Whether what matches an item is offered, or all else. Default: Include.'),
    })
    .nullish()
    .transform((filter): FilterList | undefined =>
      filter?.items == null
        ? undefined
        : { items: filter.items, action: filter.action ?? 'Include' },
    )
    .describe('A filter by UUID.'),
  interfaces: z
    .array(
      z.string().regex(/^[^\s/]{1,15}$/, 'write the name of a network interface, such as eth0'),
    )
    .min(1)
    .max(64)
    .optional()
    .describe(
      'Names of the network interfaces to search on. Default: all but the loopback interface and ' +
        'those of container networks.',
    ),
})

export type SsdpDetails = z.infer<typeof ssdpDetails>
