import assert from 'node:assert/strict'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

const details = { url: 'http://hub.local/' }
const properties = { HUB_KEY: 'secret' }
const lamp = { uniqueid: '00:17', name: 'Hall', modelid: 'LCT', state: { reachable: true } }

it('finds the lamps of the hub', async (t) => {
  const answer = { 1: lamp, 2: { ...lamp, name: 'Cellar', state: { reachable: false } } }
  const fetched = t.mock.method(globalThis, 'fetch', async () => Response.json(answer))
  const session = discover(handler, details, { properties })
  t.after(() => session.close())
  const [device] = await session.next()
  assert.equal(String(fetched.mock.calls[0].arguments[0]), 'http://hub.local/api/secret/lights')
  assert.equal(device.id, '00:17')
  assert.deepEqual(device.properties, {
    HTTP_HUB_URL: 'http://hub.local/lights/1',
    HTTP_HUB_NAME: 'Hall',
    HTTP_HUB_MODEL: 'LCT',
  })
  assert.deepEqual(session.leftOut, [{ id: 'Cellar', reason: 'is switched off' }])
})

it('says what is wrong without the key', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => new Response('', { status: 403 }))
  const refused = discover(handler, details, { properties })
  const without = discover(handler, details)
  t.after(() => Promise.all([refused.close(), without.close()]))
  await assert.rejects(refused.next(), /the hub answers with HTTP status 403/)
  await assert.rejects(without.next(), /write the key of the hub/)
})
