import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { configuration, DiscoveryHarness, key } from '../testing/discovery-harness.js'

let world: DiscoveryHarness
let clock: ManualClock

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock } = world)
})

afterEach(() => world.discovery.close())

describe('a lost handler', () => {
  it('A2 keeps its devices if it comes back, which takes its next list', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1', '2')
    endpoint.fail('failed')
    await clock.advance(1000)
    expect(world.found()).toEqual(['1', '2'])
    await world.list(endpoint, '2')
    expect(world.found()).toEqual(['2'])
  })

  it('A3 has unhealthy devices after a time and none later, and listeners hear both', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    world.registry.drop(endpoint)
    // As a machine without a battery does, once it has heard the time.
    clock.set(365 * 86_400_000)
    const told = vi.fn()
    world.discovery.onChange(told, new AbortController().signal)
    await clock.advance(29_999)
    expect(world.unhealthy()).toEqual([])
    await clock.advance(1)
    expect(world.unhealthy()).toEqual(['1'])
    expect(told).toHaveBeenCalledTimes(1)
    await clock.advance(269_999)
    expect(world.found()).toEqual(['1'])
    await clock.advance(1)
    expect(world.found()).toEqual([])
    expect(world.discovery.deviceSet(key).complete).toBe(true)
    expect(told).toHaveBeenCalledTimes(2)
  })

  it('A2 A3 leaves the set incomplete until a handler comes, or for a time', async () => {
    world.configurations.put(configuration('default'))
    world.discovery.start()
    await clock.advance(200_000)
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    // An edit of the Configuration does not delay it.
    await world.edit('edited')
    const told = vi.fn()
    world.discovery.onChange(told, new AbortController().signal)
    await clock.advance(99_999)
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    await clock.advance(1)
    expect(world.discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
    expect(told).toHaveBeenCalledWith(key)
  })

  it('A3 loses its devices in time also while it is registered, and its place', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(299_999)
    expect(world.found()).toEqual(['1'])
    // It is given up when it is next asked for.
    await clock.advance(31_000)
    expect(world.registry.size).toBe(0)
    expect(world.discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
  })

  it('A3 is asked again if it hung for longer, as it does not register again', async () => {
    const endpoint = await world.begin()
    endpoint.away = true
    endpoint.hangs = true
    await world.fail(endpoint)
    await clock.advance(400_000)
    endpoint.away = false
    await clock.advance(30_000)
    await world.list(endpoint, '1')
    expect(world.found()).toEqual(['1'])
  })
})
