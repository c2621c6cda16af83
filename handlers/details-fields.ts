// Fields that the details of several handlers have. Each handler bundles this file.
import { type FilterList, readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'

/**
 * A filter. Without items it is absent: templates write a null, or an empty mapping.
 * @param spelling gives one spelling for all texts with the same meaning
 */
export function filterList(spelling: (text: string) => string = (text) => text) {
  return z
    .strictObject({
      items: z.array(z.string().transform(spelling)).max(10_000).nullish(),
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

const INCLUDES_NOTHING = 'Include without items matches nothing'

/** The warning about a filter that nothing passes. */
export function filterWarnings(path: string, filter: FilterList | undefined) {
  const includesNothing = filter?.items.length === 0 && filter.action !== 'Exclude'
  return includesNothing ? [{ path, message: INCLUDES_NOTHING }] : []
}
