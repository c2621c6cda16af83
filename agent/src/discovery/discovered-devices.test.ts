import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import type { ManualClock } from '@akrijs/runtime/testing'
import type { Device } from '@akrijs/sdk/handler'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'
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
/** The Configurations of which a listener hears from now on. */
function told(): ObjectKey[] {
  const keys: ObjectKey[] = []
  world.discovery.onChange((which) => keys.push(which), new AbortController().signal)
  return keys
}

const UNHEALTHY_MS = 30_000
const GONE_MS = 300_000
const ACTS = ['list', 'fail', 'drop', 'pass', 'restart', 'edit', 'clock'] as const
const step = fc.record({
  act: fc.constantFrom(...ACTS),
  uid: fc.constantFrom('told@a', 'told@b', 'told@z'),
  ids: fc.uniqueArray(fc.constantFrom('1', '2', '3')),
  // Time alone changes the set.
  ms: fc.constantFrom(1, 1000, UNHEALTHY_MS - 1, UNHEALTHY_MS, GONE_MS / 2),
})
/** The last list of an endpoint, and whether a process that this agent knows has sent it. */
interface Listed {
  readonly ids: readonly string[]
  readonly isAnswer: boolean
  readonly lostAt: number
}

it('A1 A2 A3 A5 R104 devices are those of open and recent lists, in any history', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      await world.discovery.close()
      world = new DiscoveryHarness()
      world.configurations.put(configuration('default'))
      world.discovery.start()
      const now = () => world.clock.monotonicMs()
      const lists = new Map<string, Listed>()
      const registered = new Map<string, ManualEndpoint>()
      /** Start of the period without an endpoint; before all time after any answer. */
      let waitingSince = now()
      const counts = ({ lostAt }: Listed) => now() < lostAt + GONE_MS
      const lose = (name: string) => {
        const list = lists.get(name)
        if (list) lists.set(name, { ...list, lostAt: Math.min(list.lostAt, now()) })
      }
      const served = () => world.discovery.deviceSet(key).devices
      type Acts = Record<(typeof ACTS)[number], (uid: string, ids: string[], ms: number) => unknown>
      const acts: Acts = {
        async list(uid, ids) {
          await world.clock.advance(1000)
          const from = registered.get(uid) ?? new ManualEndpoint(uid)
          if (from.open === 0) await world.register(from)
          await world.list(from, ...ids)
          registered.set(uid, from)
          waitingSince = -Infinity
          lists.set(uid, { ids, isAnswer: true, lostAt: Infinity })
        },
        async fail(uid) {
          const of = registered.get(uid)
          if (of) await world.fail(of)
          lose(uid)
        },
        drop(uid) {
          const of = registered.get(uid)
          registered.delete(uid)
          if (of) world.registry.drop(of)
          lose(uid)
        },
        pass: (_uid, _ids, ms) => world.clock.advance(ms),
        async restart() {
          for (const [name, { ids: all }] of lists) {
            const ids = all.filter((id) => served().get(id)?.endpoint === name)
            lists.set(name, { ids, isAnswer: false, lostAt: now() })
          }
          registered.clear()
          waitingSince = now()
          await world.restart()
        },
        async edit() {
          await world.edit(`${now()}`)
          for (const name of registered.keys()) lose(name)
        },
        // As a machine without a battery does, once it has heard the time.
        clock: () => world.clock.set(world.clock.wallMs() + 365 * 86_400_000),
      }

      for (const { act, uid, ids, ms } of steps) {
        const before = world.discovery.deviceSet(key)
        const heard = told()
        await acts[act](uid, ids, ms)
        // A restart and a new Configuration have other listeners.
        if (act !== 'restart' && world.discovery.deviceSet(key) !== before)
          expect(heard).toContain(key)
        for (const [name, list] of lists)
          if (!registered.has(name) && !counts(list)) lists.delete(name)
        // In the order in which the endpoints came: the first one describes a device.
        const counting = [...lists].filter(([, list]) => counts(list))
        const listed = new Set(counting.flatMap(([, list]) => list.ids))
        expect([...served().keys()].sort()).toEqual([...listed].sort())
        for (const [id, { endpoint: by, healthy }] of served()) {
          const all = counting.filter(([, list]) => list.ids.includes(id))
          expect(by).toBe(all[0]?.[0])
          expect(healthy).toBe(all.some(([, { lostAt }]) => now() < lostAt + UNHEALTHY_MS))
        }
        const isWaiting = now() < waitingSince + GONE_MS
        const { complete } = world.discovery.deviceSet(key)
        expect(complete).toBe(!isWaiting && counting.every(([, list]) => list.isAnswer))
      }
    }),
    { numRuns: 200 },
  )
})

describe('a lost handler', () => {
  it('A3 loses its devices in time also while it is registered, and its place', async () => {
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

describe('the devices of the checkpoint', () => {
  const restored = async (snapshot = world.discovery.snapshot()) => {
    await world.discovery.close()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    return world.discovery.snapshot()
  }

  it('stay in the checkpoint if the agent ends early, and go with the Configuration', async () => {
    await world.list(endpoint, '1')
    const snapshot = world.discovery.snapshot()
    expect(await restored()).toEqual(snapshot)
    world.configurations.remove(key)
    world.discovery.start()
    expect(world.discovery.snapshot()).toEqual({})
  })

  it('are not those of a Configuration that is created again, before or after', async () => {
    await world.list(endpoint, '1')
    const snapshot = world.discovery.snapshot()
    world.configurations.put(configuration('default', '', 'another'))
    expect(world.found()).toEqual([])
    expect(await restored(snapshot)).toEqual({})
  })
})

describe('a device node that the kernel does not name', () => {
  const withNode = (id: string): Device => {
    const path = `/dev/${id}`
    return { id, deviceSpecs: [{ hostPath: path, containerPath: path, permissions: 'rw' }] }
  }
  it('is offered as soon as it has a name, without a new list', async () => {
    await world.list(endpoint, withNode('video0'), withNode('video1'))
    await world.list(await world.register('told@b'), 'other')
    expect(world.unhealthy()).toEqual(['video0', 'video1'])
    const changed = told()
    await clock.advance(10_000)
    expect(changed).toEqual([])
    world.kernel.present.add('/dev/video0').add('/dev/video1')
    await clock.advance(10_000)
    expect(world.unhealthy()).toEqual([])
    expect(world.found()).toEqual(['video0', 'video1', 'other'])
    expect(changed).toContain(key)
    const device = world.discovery.deviceSet(key).devices.get('video0')?.device
    expect(device).toMatchObject(withNode('video0'))
    // Nothing is left to ask for.
    expect(clock.sleeping).toEqual([])
  })

  it('is asked for with growing pauses, and with short ones after another list', async () => {
    await world.list(endpoint, withNode('video0'))
    const after = async (ms: number) => {
      world.kernel.asked = 0
      await clock.advance(ms)
      return world.kernel.asked
    }
    expect(await after(1000)).toBe(1)
    expect(await after(1999)).toBe(0)
    expect(await after(1)).toBe(1)
    expect(await after(3600_000)).toBeLessThan(20)
    expect(await after(3600_000)).toBe(12)
    endpoint.list(withNode('video0'), withNode('video1'))
    expect(await after(0)).toBe(1)
    expect(await after(1000)).toBe(1)
    // Another reason that does not pass by itself.
    endpoint.list({ ...withNode('video0'), properties: { PATH: '/x' } })
    expect(await after(0)).toBe(1)
    expect(await after(3600_000)).toBe(0)
    expect(clock.sleeping).toEqual([])
  })

  it('is offered after a restart of the agent, although its handler is away', async () => {
    world.kernel.present.add('/dev/video0')
    await world.list(endpoint, withNode('video0'))
    world.kernel = { present: new Set(), complete: false, asked: 0 }
    await world.restart()
    expect(world.unhealthy()).toEqual(['video0'])
    world.kernel.present.add('/dev/video0')
    await clock.advance(1000)
    expect(world.unhealthy()).toEqual([])
  })

  it('is no longer asked for once the list of its endpoint is dropped', async () => {
    await world.list(endpoint, withNode('video0'))
    world.registry.drop(endpoint)
    await clock.advance(3600_000)
    expect(world.found()).toEqual([])
    expect(clock.sleeping).toEqual([])
  })

  it('of a list from before does not replace a newer list, and leaves no timer', async () => {
    endpoint.list(withNode('video0'))
    await clock.advance(999)
    let answer: () => void = () => expect.fail()
    world.kernel.answer = new Promise((resolve) => {
      answer = resolve
    })
    await clock.advance(1)
    delete world.kernel.answer
    await world.list(endpoint, 'other')
    world.kernel.present.add('/dev/video0')
    answer()
    await clock.advance(300_000)
    expect(world.found()).toEqual(['other'])
    await world.list(endpoint, withNode('video1'))
    await world.discovery.close()
    expect(clock.sleeping).toEqual([])
  })

  it('of a list for the details before an edit is not offered', async () => {
    let answer: () => void = () => expect.fail()
    world.kernel.answer = new Promise((resolve) => {
      answer = resolve
    })
    await world.list(endpoint, withNode('video0'))
    await world.edit('other')
    answer()
    await clock.advance(0)
    expect(world.found()).toEqual([])
    await world.list(endpoint, 'other')
    expect(world.found()).toEqual(['other'])
  })
})

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
  it('never displace a device with or before its Instance by a flood of new ids', async () => {
    world.servedIds = new Set(['y'])
    await world.list(endpoint, 'z')
    await world.list(endpoint, ...ids('a', 100), 'y', 'z')
    expect(world.found()).toEqual(['a0', 'a1', 'y', 'z'])
    expect(leftOut()?.devices).toBe(98)
    const rank = endpoint.requests[0]?.rank ?? expect.fail()
    expect(rank('z')).toBeLessThan(rank('a2'))
    // Each list is cut by the ranks of its time.
    await world.list(endpoint, 'b')
    expect(rank('b')).toBeLessThan(rank('z'))
  })

  it('leave the set as it is when a device changes that they leave out', async () => {
    const second = await world.register('told@b')
    await world.list(endpoint, ...ids('a', 4))
    await world.list(second, 'b')
    const before = world.discovery.deviceSet(key)
    expect(before.leftOut?.devices).toBe(1)
    await world.list(second, { id: 'b', properties: { SIGNAL: '7' } })
    expect(world.discovery.deviceSet(key)).toBe(before)
    await world.list(second, 'c')
    expect([...(leftOut()?.listed.keys() ?? [])]).toEqual([...ids('a', 4), 'c'])
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
    expect(lists.map((list) => [list.endpoint, list.devices?.map(({ id }) => id)])).toEqual([
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
    const changed = told()
    world.configurations.remove(key)
    expect(world.found(last)).toEqual(ids('a', 4))
    expect([leftOut(last), changed.includes(last)]).toEqual([undefined, true])
  })

  it('are not decided about again when a Configuration without devices changes', async () => {
    await world.list(endpoint, ...ids('a', 5))
    const ranked = vi.spyOn(world.servedIds, 'has')
    world.configurations.put(configuration('other'))
    world.configurations.remove(keyOf(configuration('other')))
    expect(ranked).not.toHaveBeenCalled()
  })

  it('count slots too: an edit of the capacity decides how many devices fit', async () => {
    const { spec, ...configuration } = world.configurations.get(key) ?? expect.fail()
    await world.list(endpoint, ...ids('a', 4))
    for (const [capacity = 1, fitting = 4] of [[20, 3], [15], [61, 0]]) {
      world.configurations.put({ ...configuration, spec: { ...spec, capacity } })
      expect(world.found()).toEqual(ids('a', fitting))
    }
    expect(leftOut()).toMatchObject({ devices: 4, bound: 'slotsPerNamespace' })
    expect([...(leftOut()?.listed.keys() ?? [])]).toEqual(ids('a', 4))
  })
})
