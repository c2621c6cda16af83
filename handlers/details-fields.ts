// Fields that the details of several handlers have. Each handler bundles this file.
import { isIP, isIPv4 } from 'node:net'
import { type FilterList, plainAddress, readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'

/**
 * A filter. Without items it is absent: templates write a null, or an empty mapping.
 * @param item the schema of an item, which gives one spelling to all texts with the same meaning
 */
export function filterList(item: z.ZodType<string> = z.string()) {
  return z
    .strictObject({
      items: z.array(item).max(10_000).nullish(),
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
}

/** Names of network interfaces. */
export const interfaceNames = z
  .array(z.string().regex(/^[^\s/]{1,15}$/, 'write the name of a network interface, such as eth0'))
  .min(1)
  .max(64)
  .optional()

/** A network, or one address. */
export const network = z.string().transform((text, context) => {
  const read = readNetwork(text)
  if (read !== undefined) return read
  context.addIssue({
    code: 'custom',
    message:
      'this is not a network; write a range, such as 192.168.1.0/24 or fd00::/8, or one address',
  })
  return z.NEVER
})

/**
 * Addresses, and ranges of IPv4 such as `10.20.0.10-10.20.0.40`; each address once.
 * @param most the number of addresses in all
 */
export function addressList(most: number) {
  const addresses = z.string().transform((text, context) => {
    const found = addressesOf(text, most)
    if (found.length > 0) return found
    context.addIssue({
      code: 'custom',
      message: `write an address, or a range of at most ${most}: 10.20.0.10-10.20.0.40`,
    })
    return z.NEVER
  })
  return z
    .array(addresses)
    .min(1, 'name at least one address, such as 10.20.0.10')
    .max(most)
    .transform((lists) => [...new Set(lists.flat())])
    .refine((all) => all.length <= most, { error: `name ${most} addresses at most`, abort: true })
}

/** None if the text is no address, and no range of at most so many. */
function addressesOf(text: string, most: number): string[] {
  const [first = '', last, ...others] = text.split('-').map((each) => each.trim())
  if (last === undefined)
    return isIP(first) > 0 && !first.includes('%') ? [plainAddress(first)] : []
  if (!isIPv4(first) || !isIPv4(last) || others.length > 0) return []
  const numberOf = (address: string) => Buffer.from(address.split('.').map(Number)).readUInt32BE()
  const [from, to] = [numberOf(first), numberOf(last)]
  if (to < from || to - from >= most) return []
  return Array.from({ length: to - from + 1 }, (_, index) =>
    [24, 16, 8, 0].map((shift) => ((from + index) >>> shift) & 0xff).join('.'),
  )
}

const INCLUDES_NOTHING = 'Include without items matches nothing'

/** The warning about a filter that nothing passes. */
export function filterWarnings(path: string, filter: FilterList | undefined) {
  const includesNothing = filter?.items.length === 0 && filter.action !== 'Exclude'
  return includesNothing ? [{ path, message: INCLUDES_NOTHING }] : []
}
