import type { Configuration } from '@akrijs/api'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import { embeddedUid } from '../handlers/handler-endpoint.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import { DiscoveryHarness, key, ManualEndpoint } from '../testing/discovery-harness.js'
import { configurationWith } from '../testing/objects.js'
import { nodeStatus } from './node-status.js'

let world: DiscoveryHarness
let clock: ManualClock
let configurations: ObjectStore<Configuration>

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock, configurations } = world)
})

afterEach(async () => {
  await world.discovery.close()
})

/** The condition `Ready` of this node, where each device has its Instance. */
function ready(): string {
  const devices = world.discovery.deviceSet(key)
  const { conditions } = nodeStatus({
    configuration: configurations.get(key) ?? expect.fail(),
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

function put(handler: string, details = ''): void {
  configurations.put(configurationWith({ handler, details }))
}

async function register(uid: string): Promise<ManualEndpoint> {
  const endpoint = new ManualEndpoint(uid)
  world.registry.register(endpoint)
  await clock.advance(0)
  return endpoint
}

describe('Ready of a node', () => {
  it('is never True without the handler', async () => {
    put('told')
    world.discovery.start()
    await clock.advance('12s')
    expect(ready()).toBe('Unknown NoHandler')
    await clock.advance('11m')
    expect(ready()).toBe('False NoHandler')
  })

  it.each([
    ['another handler, which does not exist', 'none-such', '', 'False NoHandler'],
    ['other details', 'told', 'other', 'Unknown Waiting'],
  ])('is not True after an edit to %s', async (_what, handler, details, expected) => {
    put('told')
    world.discovery.start()
    const endpoint = await register('told@a')
    endpoint.give('1')
    await clock.advance('1m')
    expect(ready()).toBe('True AllDevicesServed')
    put(handler, details)
    await clock.advance(0)
    expect(ready()).toBe(expected)
    for (const time of ['12s', '1m', '11m']) {
      await clock.advance(time)
      expect(ready()).toBe(expected)
    }
    put('told', 'other')
    await clock.advance('1s')
    endpoint.give('1')
    await clock.advance(0)
    expect(ready()).toBe('True AllDevicesServed')
  })

  it('does not wait for the embedded handler of an agent before that has its own Pod', async () => {
    put('told')
    world.discovery.start()
    const embedded = await register(embeddedUid('told'))
    embedded.give('1')
    await clock.advance(0)
    const snapshot = JSON.parse(JSON.stringify(world.discovery.snapshot()))
    await world.discovery.close()

    world.registry = new HandlerRegistry()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    await clock.advance(0)
    expect(ready()).toBe('Unknown NoHandler')
    const own = await register('told@unix')
    expect(ready()).toBe('Unknown Waiting')
    own.give('1')
    await clock.advance(0)
    expect(ready()).toBe('True AllDevicesServed')
    await clock.advance('6m')
    expect(ready()).toBe('True AllDevicesServed')
  })

  it('does not wait for an endpoint that another one of the handler has replaced', async () => {
    // The Pod of before is known for a while, and has never seen the Configuration.
    const before = await register('told@a')
    before.away = true
    before.fail('failed')
    put('told')
    world.discovery.start()
    await clock.advance('1m')
    expect(ready()).toBe('False HandlerFailed')
    const next = await register('told@b')
    next.give('1')
    await clock.advance('1s')
    expect(ready()).toBe('True AllDevicesServed')
  })

  it('stays as it is while a handler restarts', async () => {
    put('told')
    world.discovery.start()
    const endpoint = await register('told@a')
    endpoint.give()
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance('29s')
    expect(ready()).toBe('True NoDevices')
    endpoint.away = false
    await clock.advance('30s')
    endpoint.give()
    await clock.advance(0)
    expect(ready()).toBe('True NoDevices')
  })
})
