import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
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
  it('A1 asks a handler at once when it registers, after any wait', async () => {
    configurations.put(configuration('default'))
    world.discovery.start()
    await clock.advance(100_000)
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect(world.found()).toEqual(['1'])
    expect(world.discovery.deviceSet(key).complete).toBe(true)
  })

  it('keeps an endpoint that serves one Configuration and not another', async () => {
    for (const namespace of ['default', 'other']) configurations.put(configuration(namespace))
    const endpoint = new ManualEndpoint('told@a')
    const discover = endpoint.discover.bind(endpoint)
    vi.spyOn(endpoint, 'discover').mockImplementation((request, signal) => {
      // A handler can answer UNAVAILABLE, as a connection does that is not there.
      endpoint.away = request.configuration.startsWith('other')
      return discover(request, signal)
    })
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(700_000)
    expect([world.found(), world.unhealthy(), world.registry.size]).toEqual([['1'], [], 1])
    expect(endpoint.requests).toHaveLength(1)
  })

  it('A5 opens one stream for each Configuration, however often a handler registers', async () => {
    configurations.put(configuration('default'))
    configurations.put(configuration('other'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    for (let round = 0; round < 100; round++) {
      world.registry.register(endpoint)
      await clock.advance(100)
    }
    expect(endpoint.open).toBe(2)
    expect(endpoint.requests).toHaveLength(2)
    expect(world.registry.size).toBe(1)
  })

  it('A5 makes no work when a handler with open streams registers again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    const changed = vi.fn()
    world.discovery.onChange(changed, new AbortController().signal)
    world.registry.register(endpoint)
    await clock.advance(0)
    expect(changed).not.toHaveBeenCalled()
  })

  it('A5 asks a handler that registered again when its stream has ended', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(20_000)
    endpoint.away = false
    world.registry.register(endpoint)
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    // The agent sees the end of the process before only after the next one has registered.
    world.registry.register(endpoint)
    await clock.advance(0)
    endpoint.fail('failed')
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    expect(endpoint.requests).toHaveLength(3)
    expect(world.found()).toEqual(['1'])
  })

  it('A5 asks a handler that refuses the details again when it registers again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.fail('invalid-details')
    await clock.advance(0)
    world.registry.register(endpoint)
    await clock.advance(0)
    expect(endpoint.requests).toHaveLength(2)
  })

  it('A5 asks a dead endpoint that registers on ten times, then once in a second', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    endpoint.away = true
    world.discovery.start()
    await clock.advance(0)
    const asked = vi.spyOn(endpoint, 'discover')
    const register = async (seconds: number) => {
      asked.mockClear()
      for (let round = 0; round < seconds * 10; round++) {
        world.registry.register(endpoint)
        await clock.advance(100)
      }
      return asked.mock.calls.length
    }
    expect(await register(10)).toBeLessThanOrEqual(20)
    expect(await register(10)).toBeLessThanOrEqual(11)
    // The flood does not delay the handler itself for longer.
    endpoint.away = false
    world.registry.register(endpoint)
    await clock.advance(1000)
    expect(endpoint.open).toBe(1)
  })

  it('A8 keeps Configurations of one name in two namespaces apart', async () => {
    configurations.put(configuration('default', 'a'))
    configurations.put(configuration('other', 'b'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect([world.found(), world.found(keyOf(configuration('other')))]).toEqual([[], ['1']])
  })

  it('backs off from a handler that breaks after each list, until a stream lasts', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    const listAndBreak = async () => {
      endpoint.give('1')
      await clock.advance(0)
      endpoint.fail('failed')
      await clock.advance(0)
    }
    const waits: number[] = []
    for (let round = 0; round < 9; round++) {
      const asked = endpoint.requests.length
      await listAndBreak()
      const since = clock.monotonicMs()
      while (endpoint.requests.length === asked) await clock.advance(100)
      waits.push(clock.monotonicMs() - since)
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])

    endpoint.give('1')
    await clock.advance(30_000)
    const asked = endpoint.requests.length
    endpoint.fail('failed')
    await clock.advance(500)
    expect(endpoint.requests).toHaveLength(asked + 1)
  })

  it('leaves no stream, timer or session behind', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    await world.discovery.close()
    expect(endpoint.open).toBe(0)
    expect(clock.sleeping).toEqual([])
  })
})
