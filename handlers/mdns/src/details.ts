import { SERVICE_TYPE } from '@akrijs/dns-sd'
import * as z from 'zod'
import { filterList, interfaceNames } from '../../details-fields.js'

/** `discoveryDetails` of the mDNS handler. */
export const mdnsDetails = z.strictObject({
  services: z
    .array(
      z
        .string()

        .regex(SERVICE_TYPE, 'write the type of a service, such as _http._tcp')
        .transform((type) => type.toLowerCase()),
    )
    .min(1, 'name at least one type of services, such as _http._tcp')
    .max(32)
    .transform((types) => [...new Set(types)])
    .describe('Types of services, such as _http._tcp or _ipp._tcp.'),
  names: filterList().describe('A filter by the name of the service.'),
  txt: z
    .record(z.string(), filterList())
    .default({})
    .transform((filters) =>
      Object.entries(filters).map(([key, values]) => ({ key: key.toLowerCase(), values })),
    )
    .describe('Filters by the values of keys of the TXT record.'),
  interfaces: interfaceNames.describe(
    'Names of the network interfaces to search on. Default: all but the loopback interface.',
  ),
})

export type MdnsDetails = z.infer<typeof mdnsDetails>
