import * as z from 'zod'
import { addressList, filterList } from '../../details-fields.js'

/** Addresses in all. So a round takes about a minute at most. */
const MAX_ADDRESSES = 256

/** `discoveryDetails` of the SNMP handler. */
export const snmpDetails = z.strictObject({
  addresses: addressList(MAX_ADDRESSES).describe(
    'Addresses of devices, and ranges such as 10.20.0.10-10.20.0.40.',
  ),
  port: z.int().min(1).max(65_535).default(161).describe('The UDP port of all addresses.'),
  objectIds: filterList(z.string().transform((oid) => oid.replace(/^\./, ''))).describe(
    'A filter by sysObjectID: an item also stands for all object ids below it.',
  ),
  authProtocol: z
    .enum(['sha', 'sha224', 'sha256', 'sha384', 'sha512'])
    .default('sha')
    .describe('How SNMPv3 authenticates.'),
  privacyProtocol: z
    .enum(['aes', 'aes256b', 'aes256r'])
    .default('aes')
    .describe('How SNMPv3 encrypts: aes256b by Blumenthal, aes256r by Reeder (Cisco).'),
})

export type SnmpDetails = z.infer<typeof snmpDetails>
