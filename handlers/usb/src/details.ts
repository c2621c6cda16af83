import * as z from 'zod'
import { filterList } from '../../details-fields.js'

/** YAML reads 0403 and 1e10 as numbers. */
const hexadecimal = (digits: number, example: string) => {
  const problem = `write ${digits} hexadecimal digits in quotes, such as "${example}"`
  return z
    .string(problem)
    .regex(new RegExp(`^(0x)?[\\da-f]{${digits}}$`, 'i'), problem)
    .transform((text) => text.toLowerCase().replace('0x', ''))
}

/** `discoveryDetails` of the USB handler. */
export const usbDetails = z.strictObject({
  vendorIds: filterList(hexadecimal(4, '0403')).describe('A filter by vendor id, such as "0403".'),
  productIds: filterList(hexadecimal(4, '6001')).describe(
    'A filter by product id, such as "6001".',
  ),
  classes: filterList(hexadecimal(2, '0e')).describe(
    'A filter by the classes of the device and its interfaces: "0e" is video, "08" storage.',
  ),
  serialNumbers: filterList().describe('A filter by serial number.'),
  portPaths: filterList().describe('A filter by the path of ports, such as 1-2.3.'),
  speeds: filterList(z.enum(['low', 'full', 'high', 'super', 'superPlus'])).describe(
    'A filter by speed.',
  ),
  hubs: z.boolean().default(false).describe('Whether hubs are offered too.'),
  permissions: z
    .enum(['r', 'w', 'm', 'rw', 'rm', 'rwm', 'wm'])
    .default('rw')
    .describe('The access of containers to the device node.'),
})

export type UsbDetails = z.infer<typeof usbDetails>
