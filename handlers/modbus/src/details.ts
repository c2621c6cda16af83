import { isIP, isIPv4 } from 'node:net'
import { plainAddress } from '@akrijs/sdk/network'
import * as z from 'zod'
import { filterList } from '../../details-fields.js'

/** Ids of units: a serial line has 32 at most, and a silent one takes 2 s of a round. */
const MAX_IDS = 32
/** Units in all, those of each address. So a round takes about a minute at most. */
const MAX_UNITS = 256

const address = z.string().transform((text, context) => {
  const found = addressesOf(text)
  if (found.length > 0) return found
  context.addIssue({
    code: 'custom',
    message: `write an address, or a range of at most ${MAX_UNITS}: 10.20.0.10-10.20.0.40`,
  })
  return z.NEVER
})

const id = z.int().min(0).max(255)
const ids = z
  .string()
  .regex(/^\d{1,3}-\d{1,3}$/, 'write an id, or a range such as 1-16')
  .transform((text, context) => {
    const [first = 0, last = 0] = text.split('-').map(Number)
    if (first <= last && last <= 255) return range(first, last)
    context.addIssue({ code: 'custom', message: 'write a range within 0-255, such as 1-16' })
    return z.NEVER
  })

/** `discoveryDetails` of the Modbus handler. */
export const modbusDetails = z
  .strictObject({
    addresses: z
      .array(address)
      .min(1, 'name at least one address, such as 10.20.0.10')
      .max(MAX_UNITS)
      .transform((lists) => [...new Set(lists.flat())])
      .describe('Addresses of devices and gateways, and ranges such as 10.20.0.10-10.20.0.40.'),
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

/** None if the text is no address and no range. */
function addressesOf(text: string): string[] {
  const [first = '', last, ...others] = text.split('-').map((each) => each.trim())
  if (last === undefined)
    return isIP(first) > 0 && !first.includes('%') ? [plainAddress(first)] : []
  if (!isIPv4(first) || !isIPv4(last) || others.length > 0) return []
  const [from, to] = [numberOf(first), numberOf(last)]
  return to - from < MAX_UNITS ? range(from, to).map(textOf) : []
}

const range = (first: number, last: number) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index)
const numberOf = (address: string) => Buffer.from(address.split('.').map(Number)).readUInt32BE()
const textOf = (number: number) =>
  [24, 16, 8, 0].map((shift) => (number >>> shift) & 0xff).join('.')
