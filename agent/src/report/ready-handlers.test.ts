import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { embeddedUid } from '../handlers/handler-endpoint.js'
import { DiscoveryHarness, key } from '../testing/discovery-harness.js'
import { configurationWith } from '../testing/objects.js'
import { nodeStatus } from './node-status.js'

let world: DiscoveryHarness

beforeEach(() => {
  world = new DiscoveryHarness()
  put()
  world.discovery.start()
})

afterEach(() => world.discovery.close())

const put = (handler = 'told', details = '') =>
  world.configurations.put(configurationWith({ handler, details }))

/** The condition `Ready` of this node after a while, where each device has its Instance. */
async function readyAfter(time: Parameters<typeof world.clock.advance>[0]): Promise<string> {
  await world.clock.advance(time)
  const devices = world.discovery.deviceSet(key)
  const { conditions } = nodeStatus({
    ...{ collisions: [], refusals: [], taken: [], held: [], registrations: [] },
    configuration: world.configurations.get(key) ?? expect.fail(),
    discovery: world.discovery.status(key) ?? expect.fail(),
    ...{ devices, reports: undefined, present: devices.devices.size },
  })
  const { status, reason } = conditions.find(({ type }) => type === 'Ready') ?? expect.fail()
  return `${status} ${reason}`
}

describe('Ready of a node', () => {
  it.each([
    ['another handler, which does not exist', 'none-such', '', 'False NoHandler'],
    ['other details', 'told', 'other', 'Unknown Waiting'],
  ])('is not True after an edit to %s', async (_what, handler, details, expected) => {
    const endpoint = await world.register('told@a')
    endpoint.list('1')
    expect(await readyAfter('1m')).toBe('True AllDevicesServed')
    put(handler, details)
    for (const time of [0, '12s', '1m', '11m'] as const)
      expect(await readyAfter(time)).toBe(expected)
    put('told', 'other')
    await world.clock.advance('1s')
    endpoint.list('1')
    expect(await readyAfter(0)).toBe('True AllDevicesServed')
  })

  it('does not wait for the embedded handler of an agent before that has its own Pod', async () => {
    await world.list(await world.register(embeddedUid('told')), '1')
    await world.restart()
    expect(await readyAfter(0)).toBe('Unknown NoHandler')
    const own = await world.register('told@unix')
    expect(await readyAfter(0)).toBe('Unknown Waiting')
    own.list('1')
    for (const time of [0, '6m'] as const)
      expect(await readyAfter(time)).toBe('True AllDevicesServed')
  })

  it('stays as it is while a handler restarts', async () => {
    const endpoint = await world.register('told@a')
    await world.list(endpoint)
    endpoint.away = true
    endpoint.fail('failed')
    expect(await readyAfter('29s')).toBe('True NoDevices')
    endpoint.away = false
    await world.clock.advance('30s')
    endpoint.list()
    expect(await readyAfter(0)).toBe('True NoDevices')
  })
})
