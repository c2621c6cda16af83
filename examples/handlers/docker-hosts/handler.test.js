import assert from 'node:assert/strict'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

const urls = ['http://a.local:2375/', 'http://b.local:2375/', 'http://c.local:2375/']
const info = { ID: 'ABCD', Name: 'a', NCPU: 8, Architecture: 'x86_64' }

it('finds the hosts that answer, each once, and says why others are none', async (t) => {
  t.mock.method(globalThis, 'fetch', async (url) => {
    if (url.hostname === 'b.local') throw new TypeError('fetch failed')
    return Response.json(info)
  })
  const session = discover(handler, { urls })
  t.after(() => session.close())
  const [host, ...others] = await session.next()
  assert.deepEqual(others, [])
  assert.equal(host.id, 'ABCD')
  assert.equal(host.properties.DOCKER_HOSTS_CPUS, '8')
  assert.deepEqual(session.leftOut, [
    { id: 'http://b.local:2375/', reason: 'does not answer', detail: 'fetch failed' },
  ])
})
