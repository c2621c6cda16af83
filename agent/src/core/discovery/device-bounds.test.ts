import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { aborted } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'
import type { ManualClock } from '@akrijs/runtime/testing'
import type { ObjectStore } from '@akrijs/standalone'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { DiscoverRequest, HandlerEndpoint } from '../../ports/handler-endpoint.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../../testing/discovery-harness.js'
import { configurationWith } from '../../testing/objects.js'
import { ConfigurationDiscovery } from './configuration-discovery.js'

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

class ManyLists implements HandlerEndpoint {
  readonly shared = true
  readonly name = 'flood'
  readonly uid: string
  readonly #ids: readonly string[]

  constructor(uid: string, ids: readonly string[]) {
    this.uid = uid
    this.#ids = ids
  }

  async *discover(_: DiscoverRequest, signal: AbortSignal) {
    yield { devices: this.#ids.map((id) => ({ id })), leftOut: 0 }
    await aborted(signal)
  }
}

describe('the bounds of devices', () => {
  it('ask a Configuration for its demand only after its own changes', async () => {
    const units = vi.spyOn(ConfigurationDiscovery.prototype, 'units', 'get')
    for (let index = 0; index < 200; index++) configurations.put(configuration(`n${index}`))
    await clock.advance(0)
    expect(units.mock.calls.length).toBeGreaterThan(199)
    expect(units.mock.calls.length).toBeLessThan(200 * 10)
    units.mockRestore()
  })

  const other = keyOf(configuration('other'))
  let endpoint: ManualEndpoint

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
  })

  const ids = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}${index}`)
  const leftOut = (which = key) => world.discovery.deviceSet(which).leftOut

  it('keep the first ids of a Configuration in any order, and count the others', async () => {
    endpoint.give('e', 'b', 'd', 'f', 'a', 'c')
    await clock.advance(0)
    expect(world.found()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()).toMatchObject({ devices: 2, bound: 'perConfiguration' })
    endpoint.give('d', 'c')
    await clock.advance(0)
    expect(world.found()).toEqual(['d', 'c'])
    expect(leftOut()).toBeUndefined()
  })

  it('never displace a device that is served by a flood of new ids', async () => {
    endpoint.give('y', 'z')
    await clock.advance(0)
    world.servedIds = new Set(['y', 'z'])
    endpoint.give(...ids('a', 100), 'y', 'z')
    await clock.advance(0)
    expect(world.found()).toEqual(['y', 'z', 'a0', 'a1'])
    expect(leftOut()?.devices).toBe(98)
  })

  it('count a large device as several, and displace no served device by it', async () => {
    const sized = (id: string, kib: number) => ({
      id,
      properties: { TEXT: 'x'.repeat(kib * 1024) },
    })
    endpoint.list(sized('a', 1), sized('b', 7), sized('c', 7))
    await clock.advance(0)
    expect(world.found()).toEqual(['a', 'b'])
    expect(leftOut()).toMatchObject({ devices: 1, bound: 'perConfiguration' })
    endpoint.list(sized('a', 1), sized('x', 1), sized('y', 1), sized('z', 1))
    await clock.advance(0)
    world.servedIds = new Set(world.found())
    expect(world.servedIds.size).toBe(4)
    endpoint.list(sized('a', 60), sized('x', 1), sized('y', 1), sized('z', 1))
    await clock.advance(0)
    expect(world.found()).toEqual(['x', 'y', 'z'])
  })

  it('count what the list of an endpoint has left out already', async () => {
    const devices = ids('a', 4).map((id): Device => ({ id }))
    endpoint.giveList({ devices, leftOut: 96 })
    await clock.advance(0)
    expect(leftOut()).toMatchObject({ devices: 96, bound: 'perConfiguration' })
  })

  it('hold for the checkpoint: it has each served device once, of its endpoint', async () => {
    const second = new ManualEndpoint('told@b')
    world.registry.register(second)
    await clock.advance(0)
    endpoint.give(...ids('c', 4))
    await clock.advance(0)
    world.servedIds = new Set(world.found())
    second.give(...ids('a', 100), ...ids('c', 4))
    endpoint.give(...ids('b', 100), ...ids('c', 3))
    await clock.advance(0)
    const lists = world.discovery.snapshot()[key]?.lists ?? expect.fail('not in the checkpoint')
    expect(lists.map((list) => [list.endpoint, list.devices?.map(({ id }) => id)])).toEqual([
      ['told@a', ids('c', 3)],
      ['told@b', ['c3']],
    ])
  })

  it('are shared by all endpoints of a Configuration', async () => {
    const second = new ManualEndpoint('told@b')
    world.registry.register(second)
    await clock.advance(0)
    endpoint.give('a', 'c', 'e', 'g')
    second.give('b', 'd', 'f', 'h')
    await clock.advance(0)
    expect(world.found()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()?.devices).toBe(4)
  })

  describe('of the whole node', () => {
    let second: ManualEndpoint

    /** Both Configurations list devices; each has an endpoint of its own. */
    beforeEach(async () => {
      configurations.put(configurationWith({ handler: 'second' }, { namespace: 'other', uid: 'o' }))
      second = new ManualEndpoint('second@a', 'second')
      world.registry.register(second)
      await clock.advance(0)
    })

    it('leave each Configuration an equal share of new devices, and all to few', async () => {
      endpoint.give(...ids('a', 4))
      second.give(...ids('b', 4))
      await clock.advance(0)
      expect([world.found(), world.found(other)]).toEqual([ids('a', 3), ids('b', 3)])
      expect(leftOut()).toMatchObject({ devices: 1, bound: 'perNode' })
      second.give('b0')
      await clock.advance(0)
      expect([world.found(), world.found(other)]).toEqual([ids('a', 4), ['b0']])
      expect([leftOut(), leftOut(other)]).toEqual([undefined, undefined])
    })

    it('keep the served devices, and report each Configuration whose share changes', async () => {
      endpoint.give(...ids('a', 4))
      await clock.advance(0)
      world.servedIds = new Set(ids('a', 4))
      const told: string[] = []
      world.discovery.onChange((which) => told.push(which), new AbortController().signal)
      second.give(...ids('b', 4))
      await clock.advance(0)
      expect([world.found(), world.found(other)]).toEqual([ids('a', 4), ids('b', 2)])
      world.servedIds = new Set([...ids('a', 4), ...ids('b', 2)])
      told.length = 0
      configurations.remove(key)
      expect(world.found(other)).toEqual(ids('b', 4))
      expect(told).toContain(other)
    })
  })

  it('hold for the memory of all lists: what is not served is forgotten and counted', async () => {
    endpoint.give('x', 'y')
    await clock.advance(0)
    world.servedIds = new Set(['x', 'y'])
    configurations.put(configurationWith({ handler: 'hostile' }, { namespace: 'other', uid: 'o' }))
    const flood = Array.from({ length: 8 }, (_, index) => {
      return new ManualEndpoint(`hostile@${index}`, 'hostile')
    })
    for (const each of flood) world.registry.register(each)
    await clock.advance(0)
    for (const [index, each] of flood.entries()) each.give(...ids(`${index}-`, 4))
    await clock.advance(0)
    expect([world.found(), leftOut()]).toEqual([['x', 'y'], undefined])
    expect(world.found(other)).toEqual(ids('0-', 4))
    expect(leftOut(other)?.devices).toBe(28)

    // Twice the devices that could be served are remembered.
    flood[0]?.give()
    await clock.advance(0)
    expect(world.found(other)).toEqual(ids('1-', 4))
    flood[1]?.give()
    await clock.advance(0)
    expect(world.found(other)).toEqual([])
    expect(leftOut(other)?.devices).toBe(24)
    expect(flood.map(({ requests }) => requests.length)).toEqual(flood.map(() => 1))

    await clock.advance(60_000)
    expect(flood.map(({ requests }) => requests.length)).toEqual([1, 1, 2, 2, 2, 2, 2, 2])
    expect(endpoint.requests).toHaveLength(1)
    flood[2]?.give(...ids('2-', 4))
    await clock.advance(0)
    expect(world.found(other)).toEqual(ids('2-', 4))
    for (const each of flood) each.give()
    await clock.advance(120_000)
    expect(flood.map(({ requests }) => requests.length)).toEqual([1, 1, 2, 2, 2, 2, 2, 2])
    expect(leftOut(other)).toBeUndefined()
  })

  it('leave room for a handler that moves: its served devices stay healthy', async () => {
    endpoint.give('x', 'y', 'z')
    await clock.advance(0)
    world.servedIds = new Set(['x', 'y', 'z'])
    for (const namespace of ['p', 'q', 'r'])
      configurations.put(configurationWith({ handler: 'flood' }, { namespace, uid: namespace }))
    for (const index of [1, 2, 3, 4]) {
      const flood = new ManyLists(`flood@${index}`, ids(`${index}-`, 4))
      world.registry.register(flood)
    }
    await clock.advance(0)
    const moved = new ManualEndpoint('told@moved')
    world.registry.register(moved)
    await clock.advance(0)
    moved.give('x', 'y', 'z')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(30_000)
    expect([world.found(), world.unhealthy()]).toEqual([['x', 'y', 'z'], []])
    await clock.advance(270_000)
    expect([world.found(), world.unhealthy()]).toEqual([['x', 'y', 'z'], []])
  })

  it('count slots too: the capacity decides how many devices fit', async () => {
    const edited = (capacity: number) => {
      const before = configuration('default')
      configurations.put({ ...before, spec: { ...before.spec, capacity } })
    }
    edited(20)
    endpoint.give(...ids('a', 4))
    await clock.advance(0)
    expect(world.found()).toEqual(ids('a', 3))
    expect(leftOut()).toMatchObject({ devices: 1, bound: 'slots' })
    edited(15)
    await clock.advance(0)
    expect(world.found()).toEqual(ids('a', 4))
    edited(61)
    await clock.advance(0)
    expect(world.found()).toEqual([])
    expect(leftOut()).toMatchObject({ devices: 4, bound: 'slots' })
    expect([...(leftOut()?.listed.keys() ?? [])]).toEqual(ids('a', 4))
  })

  it('give the same object until the devices change', async () => {
    endpoint.give(...ids('a', 6))
    await clock.advance(0)
    const before = world.discovery.deviceSet(key)
    await clock.advance(100_000)
    expect(world.discovery.deviceSet(key)).toBe(before)
    endpoint.give(...ids('a', 7))
    await clock.advance(0)
    expect(world.discovery.deviceSet(key)).not.toBe(before)
  })
})
