import type { Configuration } from '@akrijs/api'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'

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
  it('A2 keeps the devices of a handler that comes back, and takes its next list', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1', '2')
    await clock.advance(0)
    endpoint.fail('failed')
    await clock.advance(1000)
    expect(world.found()).toEqual(['1', '2'])
    endpoint.give('2')
    await clock.advance(0)
    expect(world.found()).toEqual(['2'])
  })

  it('A3 marks devices of a lost handler, removes them later, and reports both', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    world.registry.drop(endpoint)
    // As a machine without a battery does, once it has heard the time.
    clock.set(365 * 86_400_000)
    const told = vi.fn()
    world.discovery.onChange(told, new AbortController().signal)
    await clock.advance(29_999)
    expect(world.unhealthy()).toEqual([])
    await clock.advance(1)
    expect(world.unhealthy()).toEqual(['1'])
    expect(told).toHaveBeenCalled()
    await clock.advance(270_000)
    expect(world.found()).toEqual([])
    expect(world.discovery.deviceSet(key).complete).toBe(true)
  })

  it('A2 A3 has an incomplete device set until a handler comes, or for a time', async () => {
    configurations.put(configuration('default'))
    world.discovery.start()
    await clock.advance(200_000)
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    // An edit of the Configuration does not delay it.
    configurations.put(configuration('default', 'edited'))
    const told = vi.fn()
    world.discovery.onChange(told, new AbortController().signal)
    await clock.advance(99_999)
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    await clock.advance(1)
    expect(world.discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
    expect(told).toHaveBeenCalledWith(key)
  })

  it('A3 removes an unlisted device at once, although another endpoint is lost', async () => {
    configurations.put(configuration('default'))
    const living = new ManualEndpoint('told@a')
    const lost = new ManualEndpoint('told@b')
    for (const endpoint of [living, lost]) world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    living.give('1', '2')
    lost.give('2', '3')
    await clock.advance(0)
    lost.fail('unreachable')
    await clock.advance(1000)
    living.give()
    await clock.advance(0)
    // The last list of the lost endpoint is kept, also devices that other endpoints had listed.
    expect(world.discovery.deviceSet(key).complete).toBe(true)
    expect(world.found().sort()).toEqual(['2', '3'])
  })

  it('A3 removes the devices of a lost handler in time, registered or not', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(299_999)
    expect(world.found()).toEqual(['1'])
    // It is given up when it is next asked for.
    await clock.advance(31_000)
    expect(world.registry.size).toBe(0)
    expect(world.discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
  })

  it('A3 asks a handler again that hung for longer, as it does not register again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    endpoint.away = true
    endpoint.hangs = true
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(400_000)
    endpoint.away = false
    await clock.advance(30_000)
    endpoint.give('1')
    await clock.advance(0)
    expect(world.found()).toEqual(['1'])
  })
})
