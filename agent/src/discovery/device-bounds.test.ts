import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { DiscoveryHarness, key, ManualEndpoint } from '../testing/discovery-harness.js'
import { configurationWith } from '../testing/objects.js'

let world: DiscoveryHarness
let clock: ManualClock
let endpoint: ManualEndpoint

beforeEach(async () => {
  world = new DiscoveryHarness()
  ;({ clock } = world)
  endpoint = await world.begin()
})

afterEach(() => world.discovery.close())

const ids = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)
const leftOut = (which = key) => world.discovery.deviceSet(which).leftOut

/** Devices of another Configuration, in another namespace and with another handler. */
async function listIn(namespace: string, ...listed: string[]): Promise<ObjectKey> {
  const configuration = configurationWith({ handler: namespace }, { namespace, uid: namespace })
  world.configurations.put(configuration)
  const other = new ManualEndpoint(`${namespace}@a`, namespace)
  await world.list(await world.register(other), ...listed)
  return keyOf(configuration)
}

describe('the bounds of devices', () => {
  it('keep the first ids of a Configuration in any order, and count the others', async () => {
    await world.list(endpoint, 'e', 'b', 'd', 'f', 'a', 'c')
    expect(world.found().sort()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()).toMatchObject({ devices: 2, bound: 'perConfiguration' })
    const before = world.discovery.deviceSet(key)
    await clock.advance(100_000)
    expect(world.discovery.deviceSet(key)).toBe(before)
    await world.list(endpoint, 'd', 'c')
    expect([world.found(), leftOut()]).toEqual([['d', 'c'], undefined])
  })

  it('never displace a device with or before its Instance by a flood of new ids', async () => {
    world.servedIds = new Set(['y'])
    await world.list(endpoint, 'z')
    await world.list(endpoint, ...ids('a', 100), 'y', 'z')
    expect(world.found()).toEqual(['a0', 'a1', 'y', 'z'])
    expect(leftOut()?.devices).toBe(98)
    const rankOf = endpoint.requests[0]?.rank() ?? expect.fail()
    expect(rankOf('z')).toBeLessThan(rankOf('a2'))
  })

  it('count what the list of an endpoint has left out already', async () => {
    endpoint.giveList({ devices: ids('a', 4).map((id) => ({ id })), leftOut: 96 })
    await clock.advance(0)
    expect(leftOut()).toMatchObject({ devices: 96, bound: 'perConfiguration' })
  })

  it('hold for the checkpoint: it has each served device once, of its endpoint', async () => {
    const second = await world.register('told@b')
    await world.list(endpoint, ...ids('c', 4))
    await world.list(second, ...ids('a', 100), ...ids('c', 4))
    await world.list(endpoint, ...ids('b', 100), ...ids('c', 3))
    const lists = world.discovery.snapshot()[key]?.lists ?? expect.fail('not in the checkpoint')
    expect(lists.map((list) => [list.endpoint, list.devices.map(({ id }) => id)])).toEqual([
      ['told@a', ids('c', 3)],
      ['told@b', ['c3']],
    ])
  })

  it('leave out what comes last on the node, and admit it when others go', async () => {
    await world.list(endpoint, ...ids('b', 4))
    const second = await listIn('other', ...ids('c', 4))
    const last = await listIn('third', ...ids('a', 4))
    expect([world.found(), world.found(second)]).toEqual([ids('b', 4), ids('c', 4)])
    expect(world.found(last)).toEqual(ids('a', 2))
    expect(leftOut(last)).toMatchObject({ devices: 2, bound: 'perNode' })
    const told: string[] = []
    world.discovery.onChange((which) => told.push(which), new AbortController().signal)
    world.configurations.remove(key)
    expect(world.found(last)).toEqual(ids('a', 4))
    expect([leftOut(last), told.includes(last)]).toEqual([undefined, true])
  })

  it('leave room for a handler that moves: its served devices stay healthy', async () => {
    await world.list(endpoint, 'x', 'y', 'z')
    for (const namespace of ['p', 'q', 'r']) await listIn(namespace, ...ids(namespace, 4))
    const moved = await world.register('told@moved')
    await world.list(moved, 'x', 'y', 'z')
    endpoint.away = true
    await world.fail(endpoint)
    await clock.advance(30_000)
    expect([world.found(), world.unhealthy()]).toEqual([['x', 'y', 'z'], []])
    await clock.advance(270_000)
    expect([world.found(), world.unhealthy()]).toEqual([['x', 'y', 'z'], []])
  })

  it('count slots too: an edit of the capacity decides how many devices fit', async () => {
    const { spec, ...configuration } = world.configurations.get(key) ?? expect.fail()
    await world.list(endpoint, ...ids('a', 4))
    for (const [capacity, fitting] of [
      [20, 3],
      [15, 4],
      [61, 0],
    ] as const) {
      world.configurations.put({ ...configuration, spec: { ...spec, capacity } })
      expect(world.found()).toEqual(ids('a', fitting))
    }
    expect(leftOut()).toMatchObject({ devices: 4, bound: 'slotsPerNamespace' })
    expect([...(leftOut()?.listed.keys() ?? [])]).toEqual(ids('a', 4))
  })
})
