import * as z from 'zod'
import { addressList, filterList } from '../../details-fields.js'

/** Ids of units: a serial line has 32 at most, and a silent one takes 2 s of a round. */
const MAX_IDS = 32
/** Units in all, those of each address. So a round takes about a minute at most. */
const MAX_UNITS = 256

const id = z.int().min(0).max(255)
const ids = z
  .string()
  .regex(/^\d{1,3}-\d{1,3}$/, 'write an id, or a range such as 1-16')
  .transform((text, context) => {
    const [first = 0, last = 0] = text.split('-').map(Number)
    if (first <= last && last <= 255)
      return Array.from({ length: last - first + 1 }, (_, index) => first + index)
    context.addIssue({ code: 'custom', message: 'write a range within 0-255, such as 1-16' })
    return z.NEVER
  })

/** `discoveryDetails` of the Modbus handler. */
export const modbusDetails = z
  .strictObject({
    addresses: addressList(MAX_UNITS).describe(
      'Addresses of devices and gateways, and ranges such as 10.20.0.10-10.20.0.40.',
    ),
    port: z.int().min(1).max(65_535).default(502).describe('The TCP port of all addresses.'),
    units: z
      .array(z.union([id, ids]))
      .min(1, 'name at least one id of a unit, such as 1')
      .max(MAX_IDS)
      .default([1])
      .transform((lists) => [...new Set(lists.flat())])
      .describe('Ids of units at each address, and ranges such as 1-16.'),
    vendorNames: filterList().describe('A filter by the name of the vendor.'),
    productCodes: filterList().describe('A filter by the product code.'),
    pauseMs: z
      .int()
      .min(10)
      .max(1000)
      .default(100)
      .describe('The pause before each further request to an address, in milliseconds.'),
  })
  .superRefine(({ addresses, units }, context) => {
    const problem = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (units.length > MAX_IDS)
      problem('units', `these are ${units.length} ids; name ${MAX_IDS} at most`)
    const count = addresses.length * units.length
    if (count > MAX_UNITS)
      problem('addresses', `these are ${count} units; name ${MAX_UNITS} at most`)
  })

export type ModbusDetails = z.infer<typeof modbusDetails>
