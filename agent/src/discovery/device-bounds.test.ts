import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { aborted } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import type { DiscoverRequest, HandlerEndpoint } from '../handlers/handler-endpoint.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'
import { checked, configurationWith } from '../testing/objects.js'

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
    yield { devices: this.#ids.map((id) => checked({ id })), leftOut: 0 }
    await aborted(signal)
  }
}

describe('the bounds of devices', () => {
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
    expect(world.found().sort()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()).toMatchObject({ devices: 2, bound: 'perConfiguration' })
    endpoint.give('d', 'c')
    await clock.advance(0)
    expect(world.found()).toEqual(['d', 'c'])
    expect(leftOut()).toBeUndefined()
  })

  it('never displace a device that is served by a flood of new ids', async () => {
    world.servedIds = new Set(['y', 'z'])
    endpoint.give(...ids('a', 100), 'y', 'z')
    await clock.advance(0)
    expect(world.found()).toEqual(['a0', 'a1', 'y', 'z'])
    expect(leftOut()?.devices).toBe(98)
  })

  it('never displace a device that is admitted and has no Instance yet', async () => {
    endpoint.give('y', 'z')
    await clock.advance(0)
    endpoint.give(...ids('a', 100), 'y', 'z')
    await clock.advance(0)
    expect(world.found()).toEqual(['a0', 'a1', 'y', 'z'])
    const [request] = endpoint.requests
    const rankOf = request?.rank() ?? expect.fail()
    expect(rankOf('z')).toBeLessThan(rankOf('a2'))
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
    await clock.advance(0)
    endpoint.give(...ids('b', 100), ...ids('c', 3))
    await clock.advance(0)
    const lists = world.discovery.snapshot()[key]?.lists ?? expect.fail('not in the checkpoint')
    expect(lists.map((list) => [list.endpoint, list.devices?.map(({ id }) => id)])).toEqual([
      ['told@a', ids('c', 3)],
      ['told@b', ['c3']],
    ])
  })

  it('hold for all endpoints of a Configuration together', async () => {
    const second = new ManualEndpoint('told@b')
    world.registry.register(second)
    await clock.advance(0)
    endpoint.give('a', 'c', 'e', 'g')
    second.give('b', 'd', 'f', 'h')
    await clock.advance(0)
    expect(world.found()).toEqual(['a', 'c', 'e', 'g'])
    expect(leftOut()?.devices).toBe(4)
  })

  describe('of the whole node', () => {
    const second = configurationWith({ handler: 'second' }, { namespace: 'default', uid: 's' })
    const sibling = { ...second, metadata: { ...second.metadata, name: 'sibling' } }
    /** A Configuration of the same namespace, and those of two others, each with its handler. */
    const others = [
      sibling as Configuration,
      configurationWith({ handler: 'third' }, { namespace: 'other', uid: 'o' }),
      configurationWith({ handler: 'fourth' }, { namespace: 'third', uid: 't' }),
    ] as const
    const give = async (index: 0 | 1 | 2, ...given: string[]) => {
      const { discoveryHandler } = others[index].spec
      const uid = `${discoveryHandler.name}@a`
      configurations.put(others[index])
      const of = new ManualEndpoint(uid, discoveryHandler.name)
      world.registry.register(of)
      await clock.advance(0)
      of.give(...given)
      await clock.advance(0)
      return keyOf(others[index])
    }

    it('leave half of it to other namespaces', async () => {
      endpoint.give(...ids('a', 4))
      const of = await give(0, ...ids('b', 4))
      expect([world.found(), world.found(of)]).toEqual([ids('a', 4), ['b0']])
      expect([leftOut(), leftOut(of)]).toMatchObject([
        undefined,
        { devices: 3, bound: 'perNamespace' },
      ])
      expect(world.found(await give(1, ...ids('c', 4)))).toEqual(ids('c', 4))
    })

    it('leave out what comes last, and admit it when others go', async () => {
      endpoint.give(...ids('b', 4))
      const second = await give(1, ...ids('c', 4))
      const last = await give(2, ...ids('a', 4))
      expect([world.found(), world.found(second)]).toEqual([ids('b', 4), ids('c', 4)])
      expect(world.found(last)).toEqual(ids('a', 2))
      expect(leftOut(last)).toMatchObject({ devices: 2, bound: 'perNode' })
      const told: string[] = []
      world.discovery.onChange((which) => told.push(which), new AbortController().signal)
      configurations.remove(key)
      expect(world.found(last)).toEqual(ids('a', 4))
      expect([leftOut(last), told.includes(last)]).toEqual([undefined, true])
    })
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
    expect(leftOut()).toMatchObject({ devices: 1, bound: 'slotsPerNamespace' })
    edited(15)
    await clock.advance(0)
    expect(world.found()).toEqual(ids('a', 4))
    edited(61)
    await clock.advance(0)
    expect(world.found()).toEqual([])
    expect(leftOut()).toMatchObject({ devices: 4, bound: 'slotsPerNamespace' })
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
