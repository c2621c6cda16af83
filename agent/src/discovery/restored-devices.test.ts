import type { Configuration } from '@akrijs/api'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'
import { checked } from '../testing/objects.js'

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

describe('discovery', () => {
  it('R104 has the devices of the checkpoint, and removes those that are not listed', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1', '2')
    await clock.advance(0)
    const snapshot = JSON.parse(JSON.stringify(world.discovery.snapshot()))
    await world.discovery.close()

    world.registry = new HandlerRegistry()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    expect(world.found()).toEqual(['1', '2'])
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    const again = new ManualEndpoint('told@a')
    world.registry.register(again)
    await clock.advance(0)
    again.give('2')
    await clock.advance(0)
    expect(world.found()).toEqual(['2'])
  })

  it('forgets the devices of a Configuration that was deleted while no agent ran', async () => {
    const devices = [checked({ id: '1' })]
    const snapshot = {
      [key]: { uid: 'gone', lists: [{ endpoint: 'told@a', shared: true, devices }] },
    }
    configurations.put(configuration('default'))
    await world.discovery.restore(snapshot)
    world.discovery.start()
    expect(world.found()).toEqual([])
    expect(world.discovery.snapshot()[key]?.lists).toEqual([])
  })

  it('keeps the devices of the checkpoint if the agent ends before it starts', async () => {
    configurations.put(configuration('default'))
    const devices = [checked({ id: '1' })]
    const { uid } = configuration('default').metadata
    const snapshot = { [key]: { uid, lists: [{ endpoint: 'told@a', shared: true, devices }] } }
    await world.discovery.restore(snapshot)
    expect(world.discovery.snapshot()).toEqual(snapshot)
    configurations.remove(key)
    world.discovery.start()
    expect(world.discovery.snapshot()).toEqual({})
  })

  it('A5 describes a device as its first endpoint does, also after a restart', async () => {
    const urls = () =>
      [...world.discovery.deviceSet(key).devices.values()].map(
        ({ device }) => device.properties?.URL,
      )
    configurations.put(configuration('default'))
    const first = new ManualEndpoint('told@z')
    world.registry.register(first)
    world.discovery.start()
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'first' } })
    await clock.advance(0)
    const second = new ManualEndpoint('told@a')
    world.registry.register(second)
    await clock.advance(0)
    const hostile = { id: '1', properties: { URL: 'second' } }
    second.list(hostile)
    await clock.advance(0)
    expect(urls()).toEqual(['first'])
    // The first endpoint does not see the device for a moment.
    first.list()
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'first' } })
    await clock.advance(0)
    expect(urls()).toEqual(['first'])
    // The first endpoint is replaced by its next process.
    first.fail('failed')
    await clock.advance(0)
    world.registry.drop(first)
    await clock.advance(60_000)
    expect(urls()).toEqual(['first'])
    expect(world.unhealthy()).toEqual([])
    world.registry.register(first)
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'moved' } })
    await clock.advance(0)
    expect(urls()).toEqual(['moved'])

    const snapshot = JSON.parse(JSON.stringify(world.discovery.snapshot()))
    await world.discovery.close()
    world.registry = new HandlerRegistry()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    const again = new ManualEndpoint('told@a')
    world.registry.register(again)
    await clock.advance(0)
    again.list(hostile)
    await clock.advance(0)
    expect(urls()).toEqual(['moved'])
  })

  it('checks the devices of each list and of the checkpoint by the rules', async () => {
    const state = () =>
      [...world.discovery.deviceSet(key).devices.values()].map(({ device, healthy, refusal }) => ({
        properties: device.properties,
        healthy,
        refused: refusal !== undefined,
      }))
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.list({ id: '1', properties: { URL: 'u', LD_PRELOAD: '/x.so' } })
    await clock.advance(0)
    const expected = [{ properties: { URL: 'u' }, healthy: false, refused: true }]
    expect(state()).toEqual(expected)
    const snapshot = JSON.parse(JSON.stringify(world.discovery.snapshot()))
    expect(JSON.stringify(snapshot)).toContain('LD_PRELOAD')
    await world.discovery.close()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    expect(state()).toEqual(expected)
  })

  it('starts without devices for a Configuration that was deleted and created again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    configurations.put(configuration('default', '', 'another'))
    expect(world.found()).toEqual([])
  })
})
