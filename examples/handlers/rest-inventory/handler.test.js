import assert from 'node:assert/strict'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

const details = { url: 'https://inventory.local/v1/items' }
const options = { properties: { TOKEN: 'secret' } }
const item = (id) => ({ id, address: `${id}.local`, kind: 'pump' })

function serve(t, pages) {
  return t.mock.method(globalThis, 'fetch', async (url) =>
    Response.json(pages[new URL(url).search]),
  )
}

it('finds the items of all pages', async (t) => {
  const pages = { '': { items: [item('a')], next: '?page=2' }, '?page=2': { items: [item('b')] } }
  const fetched = serve(t, pages)
  const session = discover(handler, details, options)
  t.after(() => session.close())
  const [first, second] = await session.next()
  assert.equal(first.properties.REST_INVENTORY_ADDRESS, 'a.local')
  assert.equal(second.id, 'b')
  assert.equal(fetched.mock.calls[1].arguments[1].headers.authorization, 'Bearer secret')
})

it('gives its token to no other server', async (t) => {
  const fetched = serve(t, { '': { items: [], next: 'https://evil.local/' } })
  const session = discover(handler, details, options)
  t.after(() => session.close())
  await assert.rejects(session.next(), /the next page is on another server/)
  assert.equal(fetched.mock.callCount(), 1)
})

it('ends with an error if the pages do not end', async (t) => {
  serve(t, { '': { items: [], next: '?' } })
  const session = discover(handler, details, options)
  t.after(() => session.close())
  await assert.rejects(session.next(), /more than 20 pages/)
})
