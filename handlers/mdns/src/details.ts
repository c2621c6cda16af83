import { isServiceType } from '@akrijs/dns-sd'
import type { FilterList } from '@akrijs/sdk/network'
import * as z from 'zod'

/** A filter. Without items it is absent: templates write a null, or an empty mapping. */
const filter = z
  .strictObject({
    items: z.array(z.string()).max(10_000).nullish(),
    action: z
      .enum(['Include', 'Exclude'])
      .nullish()
      .describe('Whether what matches an item is offered, or all else. Default: Include.'),
  })
  .nullish()
  .transform((value): FilterList | undefined =>
    value?.items == null ? undefined : { items: value.items, action: value.action ?? 'Include' },
  )

/** `discoveryDetails` of the mDNS handler. */
export const mdnsDetails = z.strictObject({
  services: z
    .array(
      z
        .string()
        .refine(isServiceType, 'write the type of a service, such as _http._tcp')
        .transform((type) => type.toLowerCase()),
    )
    .min(1, 'name at least one type of services, such as _http._tcp')
    .max(32)
    .transform((types) => [...new Set(types)])
    .describe('Types of services, such as _http._tcp or _ipp._tcp.'),
  names: filter.describe('A filter by the name of the service.'),
  txt: z
    .record(z.string(), filter)
    .default({})
    .transform((filters) =>
      Object.entries(filters).map(([key, values]) => ({ key: key.toLowerCase(), values })),
    )
    .describe('Filters by the values of keys of the TXT record.'),
  interfaces: z
    .array(
      z.string().regex(/^[^\s/]{1,15}$/, 'write the name of a network interface, such as eth0'),
    )
    .min(1)
    .max(64)
    .optional()
    .describe(
      'Names of the network interfaces to search on. Default: all but the loopback interface.',
    ),
})

export type MdnsDetails = z.infer<typeof mdnsDetails>
