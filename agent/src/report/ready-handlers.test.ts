import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { embeddedUid } from '../handlers/handler-endpoint.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import { DiscoveryHarness, key, ManualEndpoint } from '../testing/discovery-harness.js'
import { configurationWith } from '../testing/objects.js'
import { nodeStatus } from './node-status.js'

let world: DiscoveryHarness

beforeEach(() => {
  world = new DiscoveryHarness()
})

afterEach(() => world.discovery.close())

/** The condition `Ready` of this node after a while, where each device has its Instance. */
async function readyAfter(time: Parameters<typeof world.clock.advance>[0]): Promise<string> {
  await world.clock.advance(time)
  const devices = world.discovery.deviceSet(key)
  const { conditions } = nodeStatus({
    configuration: world.configurations.get(key) ?? expect.fail(),
    discovery: world.discovery.status(key) ?? expect.fail(),
    devices,
    collisions: [],
    refusals: [],
    taken: [],
    held: [],
    registrations: [],
    present: devices.devices.size,
  })
  const { status, reason } = conditions.find(({ type }) => type === 'Ready') ?? expect.fail()
  return `${status} ${reason}`
}

function put(handler = 'told', details = ''): void {
  world.configurations.put(configurationWith({ handler, details }))
}

async function register(uid: string): Promise<ManualEndpoint> {
  const endpoint = new ManualEndpoint(uid)
  world.registry.register(endpoint)
  await world.clock.advance(0)
  return endpoint
}

describe('Ready of a node', () => {
  it('is never True without the handler', async () => {
    put()
    world.discovery.start()
    expect(await readyAfter('12s')).toBe('Unknown NoHandler')
    expect(await readyAfter('11m')).toBe('False NoHandler')
  })

  it.each([
    ['another handler, which does not exist', 'none-such', '', 'False NoHandler'],
    ['other details', 'told', 'other', 'Unknown Waiting'],
  ])('is not True after an edit to %s', async (_what, handler, details, expected) => {
    put()
    world.discovery.start()
    const endpoint = await register('told@a')
    endpoint.give('1')
    expect(await readyAfter('1m')).toBe('True AllDevicesServed')
    put(handler, details)
    for (const time of [0, '12s', '1m', '11m'] as const)
      expect(await readyAfter(time)).toBe(expected)
    put('told', 'other')
    await world.clock.advance('1s')
    endpoint.give('1')
    expect(await readyAfter(0)).toBe('True AllDevicesServed')
  })

  it('does not wait for the embedded handler of an agent before that has its own Pod', async () => {
    put()
    world.discovery.start()
    const embedded = await register(embeddedUid('told'))
    embedded.give('1')
    await world.clock.advance(0)
    const snapshot = JSON.parse(JSON.stringify(world.discovery.snapshot()))
    await world.discovery.close()
    world.registry = new HandlerRegistry()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    expect(await readyAfter(0)).toBe('Unknown NoHandler')
    const own = await register('told@unix')
    expect(await readyAfter(0)).toBe('Unknown Waiting')
    own.give('1')
    for (const time of [0, '6m'] as const)
      expect(await readyAfter(time)).toBe('True AllDevicesServed')
  })

  it('does not wait for an endpoint that another one of the handler has replaced', async () => {
    // The Pod of before is known for a while, and has never seen the Configuration.
    const before = await register('told@a')
    before.away = true
    before.fail('failed')
    put()
    world.discovery.start()
    expect(await readyAfter('1m')).toBe('False HandlerFailed')
    const next = await register('told@b')
    next.give('1')
    expect(await readyAfter('1s')).toBe('True AllDevicesServed')
  })

  it('stays as it is while a handler restarts', async () => {
    put()
    world.discovery.start()
    const endpoint = await register('told@a')
    endpoint.give()
    await world.clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    expect(await readyAfter('29s')).toBe('True NoDevices')
    endpoint.away = false
    await world.clock.advance('30s')
    endpoint.give()
    expect(await readyAfter(0)).toBe('True NoDevices')
  })
})
