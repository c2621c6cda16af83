// Finds what an inventory lists, page by page, with a token from a Secret.
import { defineDiscoveryHandler, every, InvalidDetailsError, interval } from '@akrijs/sdk'
import { z } from 'zod'

/** An inventory that lists more has an error. */
const MAX_PAGES = 20

const Details = z.strictObject({
  url: z.url({ protocol: /^https$/ }),
  /** The time from one reading to the next. */
  interval: z
    .string()
    .refine(...interval({ atLeast: '5s', atMost: '1h' }))
    .default('1m'),
})

const Page = z.object({
  items: z.array(z.object({ id: z.string().min(1), address: z.string(), kind: z.string() })),
  next: z.string().optional(),
})

export default defineDiscoveryHandler({
  name: 'rest-inventory',
  shared: true,
  details: Details,
  async *discover({ details, properties, signal }) {
    const token = properties.text('TOKEN')
    if (token === undefined)
      throw new InvalidDetailsError('write the token into discoveryProperties: TOKEN')
    for await (const _ of every(details.interval, { signal })) {
      const items = await itemsOf(details.url, token, signal)
      yield items.map(({ id, address, kind }) => ({
        id,
        properties: { REST_INVENTORY_ADDRESS: address, REST_INVENTORY_KIND: kind },
      }))
    }
  },
})

/** All pages, or an error: a part of the list would remove the other devices. */
async function itemsOf(url, token, signal) {
  const items = []
  let next = url
  for (let pages = 0; next !== undefined; pages++) {
    if (pages === MAX_PAGES) throw new Error(`the inventory has more than ${MAX_PAGES} pages`)
    // The token is for this server alone.
    if (new URL(next, url).origin !== new URL(url).origin)
      throw new Error('the next page is on another server')
    const response = await fetch(new URL(next, url), {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
    })
    if (!response.ok) throw new Error(`the inventory answers with HTTP status ${response.status}`)
    const page = Page.parse(await response.json())
    items.push(...page.items)
    next = page.next
  }
  return items
}
