import { setImmediate } from 'node:timers/promises'
import type { Configuration, ConfigurationName, Instance, SlotName } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube/objects'
import { ReconcileQueue } from '@akrijs/kube/queue'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { ObjectStore } from '../cluster/object-store.js'
import { COLLIDING, found, NODE, OTHER, seen, setOf } from '../testing/objects.js'
import { ReconcilerHarness } from '../testing/reconciler-harness.js'
import { deviceDigest } from './instance-name.js'

let world: ReconcilerHarness
let cluster: ReconcilerHarness['cluster']

beforeEach(async () => {
  world = await ReconcilerHarness.open()
  cluster = world.cluster
})

/** Another Configuration, which is older and in another namespace. */
const olderNamed = (name: ConfigurationName): Configuration => {
  const creationTimestamp = '2020-01-01T00:00:00Z'
  const metadata = { ...world.configuration.metadata, name, creationTimestamp }
  return { ...world.configuration, metadata: { ...metadata, namespace: 'line', uid: 'older' } }
}

describe('the Instances of a node', () => {
  it('R104 R15 are served before they are created, after their Configuration', async () => {
    expect(await world.callsOf(() => world.reconcile())).toEqual([
      `serve ${world.wanted.name}`,
      `serve ${world.name('foo0')}`,
      `changed ${world.name('foo0')}`,
    ])
    const brokerProperties = { NAME: 'foo0' }
    expect(world.spec()).toMatchObject({ nodes: [NODE], shared: true, brokerProperties })
  })

  it('are created while the kubelet registers their plugins', async () => {
    let register = () => {}
    world.registered = new Promise((resolve) => {
      register = resolve
    })
    const reconciling = world.reconcile()
    await eventually(() => expect(world.spec()).toBeDefined())
    register()
    expect(await reconciling).toEqual({})
  })

  it('are written before a pass ends whose plugins fail', async () => {
    world.registered = Promise.reject(new TypeError('no list'))
    const ends: string[] = []
    vi.spyOn(cluster, 'createInstance').mockImplementation(async () => {
      await setImmediate()
      ends.push('write')
      return 'exists'
    })
    await world.reconcile().catch(() => ends.push('pass'))
    expect(ends).toEqual(['write', 'pass'])
  })

  it('come about although one of them fails, and the failure is told', async () => {
    world.failing = world.name('foo0')
    await expect(world.reconcile(seen('foo0', 'foo1'))).rejects.toThrow('cannot be served')
    expect([world.spec(), world.spec('foo1')]).toEqual([undefined, expect.anything()])
    world.failing = undefined
    await world.reconcile()
    expect(world.spec()).toBeDefined()
  })

  it('are served and kept after a restart, before those of new devices', async () => {
    await world.reconcile(seen('foo1'))
    world.make()
    // The agent before may have wished to leave.
    const stay = vi.spyOn(cluster, 'stayInInstance')
    const calls = await world.callsOf(() => world.reconcile(seen('foo0', 'foo1')))
    expect(calls.filter((call) => call.startsWith('serve'))).toEqual(
      [world.wanted.name, world.name('foo1'), world.name('foo0')].map((name) => `serve ${name}`),
    )
    expect(stay.mock.calls).toEqual([[world.at('foo1')]])
  })

  it.each([
    ['the first device comes', { ...seen(), complete: false }, seen('foo0')],
    ['a device comes', seen('foo0'), seen('foo0', 'foo1')],
    ['the last device goes', seen('foo0'), seen()],
  ])('have a pass at once when %s; other changes are gathered', async (_, before, after) => {
    await world.reconcile(before)
    world.devicesChanged()
    expect(world.reconciler.queued).toBe(0)
    world.devices = after
    world.devicesChanged()
    expect(world.reconciler.queued).toBe(1)
  })

  it('are not written, and cost no plugin anything, if nothing has changed', async () => {
    const ids = Array.from({ length: 200 }, (_, index) => `foo${index}`)
    for (const _ of [1, 2]) await world.reconcile(seen(...ids))
    const before = cluster.instances.list()
    const serve = `serve ${world.wanted.name}`
    expect(await world.callsOf(() => world.reconcile(seen(...ids)))).toEqual([serve])
    expect(cluster.instances.list()).toEqual(before)
    const unhealthy = found({ id: 'foo7', properties: { NAME: 'foo7' } }, { healthy: false })
    const { devices } = seen(...ids)
    const next = setOf(...new Map([...devices, ['foo7', unhealthy]]).values())
    expect(await world.callsOf(() => world.reconcile(next))).toEqual([
      serve,
      `serve ${world.name('foo7')} unhealthy`,
    ])
  })

  it('are planned again after claims of a device with a long name, and of no other', async () => {
    for (const _ of [1, 2]) await world.reconcile(seen('foo0', ...COLLIDING))
    const adding = vi.spyOn(ReconcileQueue.prototype, 'add')
    onTestFinished(() => adding.mockRestore())
    const claim = (name: string) =>
      cluster.claimSlot(objectKey('default', name), `${name}-0` as SlotName, NODE)
    await claim(world.name('foo0'))
    expect(adding).not.toHaveBeenCalled()
    await claim(`${world.wanted.name}-${deviceDigest(COLLIDING[1], { shared: true }, 'long')}`)
    expect(adding).toHaveBeenCalledWith(world.key)
  })

  it.each([
    ['no further pass for claims', 'foo0', {}],
    ['a further pass for claims of devices with one digest', COLLIDING[0], { requeueAfterMs: 0 }],
  ])('have %s that change during a plan', async (_, id, result) => {
    const ids = [...Array.from({ length: 200 }, (_, index) => `foo${index}`), ...COLLIDING]
    const set = (healthy: boolean) => setOf(...ids.map((id) => found({ id }, { healthy })))
    for (const _ of [1, 2]) await world.reconcile(set(true))
    const adding = vi.spyOn(ReconcileQueue.prototype, 'add')
    onTestFinished(() => adding.mockRestore())
    const reconciling = world.reconcile(set(false))
    await cluster.claimSlot(world.at(id), world.slot(id), OTHER)
    expect(world.calls).not.toContain(`serve ${world.name(id)} unhealthy`)
    expect(await reconciling).toEqual(result)
    expect(adding).not.toHaveBeenCalled()
  })

  it('are left and served no more once their Configuration is refused', async () => {
    const rivals = new ObjectStore<Configuration>()
    const older = olderNamed(world.configuration.metadata.name)
    for (const each of [world.configuration, older]) rivals.put(each)
    await world.reconcile()
    const { reconciler } = world
    const refusing = world.make(rivals)
    await world.reconcile()
    expect(world.spec()).toBeUndefined()
    // Another node still has its Instance: this node only leaves.
    await reconciler.reconcile(world.key)
    await cluster.joinInstance(world.at('foo0'), OTHER)
    await refusing.reconcile(world.key)
    expect(world.spec()?.nodes).toEqual([OTHER])
  })

  it('leave the name that an older Configuration has, until that is gone', async () => {
    const rivals = new ObjectStore<Configuration>()
    const name = world.name('foo0') as string as ConfigurationName
    const owner = olderNamed(name)
    rivals.put(world.configuration)
    const clashing = world.make(rivals)
    await world.reconcile(seen('foo0', 'foo1'))
    expect(world.spec()).toBeDefined()
    rivals.put(owner)
    await world.reconcile()
    expect([world.spec(), world.spec('foo1')]).toEqual([undefined, expect.anything()])
    expect(clashing.view(world.key).taken).toEqual([{ device: 'foo0', owner: `line/${name}` }])
    expect([...world.served.keys()]).toEqual([world.name('foo1')])
    rivals.remove(keyOf(owner))
    await world.reconcile()
    expect(world.spec()).toBeDefined()
    expect(clashing.view(world.key).taken).toEqual([])
  })

  it('A9 R60 have the properties of a Configuration that was edited before the list', async () => {
    const empty = { ...seen(), complete: false }
    await world.reconcile(empty)
    await world.edit({ brokerProperties: { EDITED: 'yes', SITE: 'of the configuration' } })
    await world.reconcile()
    expect(cluster.instances.list()).toEqual([])
    await world.reconcile(setOf(found({ id: 'foo0', properties: { NAME: 'foo0', SITE: 'x' } })))
    const wins = { EDITED: 'yes', SITE: 'of the configuration' }
    expect(world.spec()?.brokerProperties).toEqual({ ...wins, NAME: 'foo0' })
  })

  it('R98 are joined if another node has created them, and left with their device', async () => {
    await world.createOfOthers('foo0', [OTHER])
    await world.reconcile()
    expect(world.spec()?.nodes).toEqual([OTHER, NODE])
    // A device that the node leaves is not offered.
    expect(await world.callsOf(() => world.reconcile(seen()))).toEqual([
      `serve ${world.wanted.name}`,
      `withdraw gone ${world.name('foo0')}`,
      `changed ${world.name('foo0')}`,
    ])
    expect(world.spec()?.nodes).toEqual([OTHER])
  })

  it('R46 R47 are deleted with their device, and recreated when the device returns', async () => {
    await world.reconcile()
    const before = world.spec()
    await world.reconcile(seen())
    expect(world.spec()).toBeUndefined()
    await world.reconcile(seen('foo0'))
    expect(world.spec()).toEqual(before)
    const name = world.name('foo0')
    const created = [`serve ${name}`, `changed ${name}`]
    const removed = [`withdraw gone ${name}`, `changed ${name}`]
    const calls = world.calls.filter((call) => call.endsWith(name))
    expect(calls).toEqual([...created, ...removed, ...created])
  })

  it('R84 A10 A13 are recreated with the claims of containers after their deletion', async () => {
    await world.reconcile()
    const at = world.at('foo0')
    await cluster.joinInstance(at, OTHER)
    // Of these nodes the first one would write the capacity, and who has left would join.
    const leaving = async () => {
      await world.edit({ capacity: 3 })
      const before = cluster.instances.get(at) ?? expect.fail()
      const deletionTimestamp = '2026-01-01T00:00:00Z'
      const deleted: Instance = { ...before, metadata: { ...before.metadata, deletionTimestamp } }
      cluster.instances.put(deleted)
      expect(await world.reconcile()).toEqual({})
      expect(cluster.instances.get(at)).toBe(deleted)
      expect(world.reconciler.view(world.key).held).toEqual([
        { name: world.name('foo0'), finalizers: [] },
      ])
      cluster.instances.put(before)
    }
    await leaving()
    await cluster.leaveInstance(at, NODE)
    await leaving()
    await cluster.leaveInstance(at, OTHER)
    world.allocate('foo0', world.name('foo0'), world.slot('foo0', 1))
    await world.reconcile()
    expect(world.spec()).toMatchObject({ nodes: [NODE], capacity: 3 })
    expect(world.spec()?.deviceUsage[world.slot('foo0', 1)]).toBe(NODE)
    expect(world.calls).not.toContain(`withdraw ${world.name('foo0')}`)
  })

  it('have a pass at the start, also of a refused Configuration, and after a loss', () => {
    const adding = vi.spyOn(ReconcileQueue.prototype, 'add')
    onTestFinished(() => adding.mockRestore())
    const rivals = new ObjectStore<Configuration>()
    for (const each of [world.configuration, olderNamed(world.wanted.name)]) rivals.put(each)
    void world.make(rivals).run(world.stop.signal)
    expect(adding.mock.calls).toEqual([[world.key]])
    world.make()
    for (const configuration of [world.wanted.name, 'other' as ConfigurationName])
      world.deviceLost({ id: 'foo0', instance: world.name('foo0'), configuration })
    expect(adding.mock.calls).toEqual([[world.key], [world.key]])
    world.stop.abort()
  })
})

describe('the fields of a shared Instance', () => {
  const asOthersSee = { capacity: 1, brokerProperties: { NAME: 'as the other sees it' } }
  /** Nodes leave and join until this node is the last. */
  const becomeLast = async () => {
    await world.reconcile()
    await cluster.joinInstance(world.at('foo0'), OTHER)
    await cluster.leaveInstance(world.at('foo0'), NODE)
    await cluster.joinInstance(world.at('foo0'), NODE)
  }

  it('A11 are written by the first of its nodes only', async () => {
    await world.reconcile()
    await cluster.joinInstance(world.at('foo0'), OTHER)
    await world.reconcile(setOf(found({ id: 'foo0', properties: { NAME: 'new' } })))
    expect(world.spec()?.brokerProperties).toEqual({ NAME: 'new' })
    await becomeLast()
    await cluster.updateInstance(world.at('foo0'), asOthersSee)
    await world.reconcile()
    expect(world.spec()).toMatchObject(asOthersSee)
  })

  it('A11 A20 have a new capacity from the next node if the first does not write it', async () => {
    await becomeLast()
    await cluster.updateInstance(world.at('foo0'), asOthersSee)
    await world.edit({ capacity: 3 })
    expect(await world.reconcile()).toEqual({ requeueAfterMs: 5000 })
    await world.clock.advance(4000)
    expect(await world.reconcile()).toEqual({ requeueAfterMs: 1000 })
    expect(world.spec()?.capacity).toBe(1)
    // The plugin of the next agent does not wait. The agent before may have wished to leave.
    world.make()
    const stay = vi.spyOn(cluster, 'stayInInstance')
    const calls = await world.callsOf(() => world.reconcile())
    expect(calls).toContain(`serve ${world.name('foo0')}`)
    expect(stay).toHaveBeenCalledWith(world.at('foo0'))
    await world.clock.advance(4000)
    await world.clock.advance(1000)
    expect(await world.reconcile()).toEqual({})
    expect(world.spec()).toMatchObject({ ...asOthersSee, capacity: 3 })
  })

  it('R38 A15 have a lower capacity once the claims beyond it are free', async () => {
    await world.edit({ capacity: 2 })
    await world.reconcile()
    const key = world.at('foo0')
    const beyond = `${world.name('foo0')}-1` as SlotName
    await cluster.claimSlot(key, beyond, OTHER)
    vi.spyOn(cluster, 'updateInstance').mockResolvedValueOnce('deferred')
    await world.edit({ capacity: 1 })
    await world.reconcile()
    expect(world.spec()?.capacity).toBe(2)
    const adding = vi.spyOn(ReconcileQueue.prototype, 'add')
    onTestFinished(() => adding.mockRestore())
    await cluster.releaseSlot(key, beyond, OTHER)
    expect(adding).toHaveBeenCalledWith(world.key)
    await world.reconcile()
    expect(world.spec()?.capacity).toBe(1)
  })

  it('A11 keep the capacity if the cache is behind an edit that another follows', async () => {
    await becomeLast()
    const heard = cluster.configurations.get(world.key)
    await world.edit({ capacity: 3 })
    await cluster.updateInstance(world.at('foo0'), { capacity: 3 })
    vi.spyOn(cluster.configurations, 'get').mockReturnValue(heard)
    vi.spyOn(cluster, 'readConfiguration').mockResolvedValue(cluster.configurations.list()[0])
    await world.reconcile()
    await world.clock.advance(60_000)
    await world.reconcile()
    expect(world.spec()?.capacity).toBe(3)
  })
})

describe('the resources of Instances', () => {
  const configuration = () => world.configuration.metadata.name

  it('wait while the Node has no room for their name, are counted, and come later', async () => {
    for (const name of [world.name('foo1'), configuration()]) world.refused.add(name)
    expect(await world.reconcile(seen('foo0', 'foo1'))).toEqual({ requeueAfterMs: 60_000 })
    expect(world.reconciler.view(world.key).refusals).toHaveLength(2)
    expect(world.calls).toEqual([`serve ${world.name('foo0')}`, `changed ${world.name('foo0')}`])
    world.refused.clear()
    expect(await world.reconcile()).toEqual({})
    expect(world.reconciler.view(world.key).refusals).toEqual([])
    expect(world.spec('foo1')).toBeDefined()
    expect(world.calls).toContain(`serve ${configuration()}`)
    // Those of gone devices are no longer offered.
    await world.reconcile(seen('foo2'))
    expect(world.offered).toBe(1)
  })

  it('are offered whatever the Node has room for, if the Node has their name already', async () => {
    await world.reconcile()
    for (const name of [world.name('foo0'), configuration()]) world.refused.add(name)
    expect(await world.reconcile()).toEqual({})
    world.make()
    const calls = await world.callsOf(() => world.reconcile())
    expect(calls).toContain(`serve ${world.name('foo0')}`)
  })

  it('need no names if their Configuration alone is offered', async () => {
    await world.edit({ offer: 'configuration' })
    world.refused.add(world.name('foo0'))
    const [whole, part] = [`serve ${configuration()}`, `serve ${world.name('foo0')}`]
    expect(await world.reconcile()).toEqual({})
    expect(world.calls.slice(0, 2)).toEqual([whole, `${part} by its Configuration`])
    expect(world.spec()).toBeDefined()
    // The name is asked for when the Instance is offered too.
    await world.edit({ offer: 'both' })
    const calls = await world.callsOf(async () =>
      expect(await world.reconcile()).toEqual({ requeueAfterMs: 60_000 }),
    )
    expect(new Set(calls)).toEqual(new Set([whole, `${part} by its Configuration`]))
    expect(world.reconciler.view(world.key).refusals).toHaveLength(1)
    world.refused.clear()
    expect(await world.callsOf(() => world.reconcile())).toContain(part)
  })

  it('are withdrawn by an edit, while the Instances stay', async () => {
    await world.reconcile()
    const before = cluster.instances.get(world.at('foo0'))
    const calls = await world.callsOf(async () => {
      await world.edit({ offer: 'configuration' })
      await world.reconcile()
      await world.edit({ offer: 'instance' })
      for (const _ of [1, 2]) await world.reconcile()
    })
    expect(calls.filter((call) => !call.startsWith('serve'))).toEqual([`withdraw ${world.key}`])
    expect(calls.at(-1)).toBe(`serve ${world.name('foo0')}`)
    expect(cluster.instances.get(world.at('foo0'))).toBe(before)
  })
})

describe('a shared device that all nodes see at once', () => {
  beforeEach(() => {
    Object.defineProperty(cluster, 'knownNodes', { value: 21 })
  })

  it('gets its Instance after a random wait that grows with the number of nodes', async () => {
    expect(await world.reconcile()).toEqual({ requeueAfterMs: 200 })
    expect(world.spec()).toBeUndefined()
    await world.clock.advance(199)
    expect(await world.reconcile()).toEqual({ requeueAfterMs: 1 })
    await world.clock.advance(1)
    expect(await world.reconcile()).toEqual({})
    expect(world.spec()?.nodes).toEqual([NODE])
  })

  it('is joined at once if another node was first', async () => {
    await world.reconcile()
    await world.createOfOthers('foo0', [OTHER])
    expect(await world.reconcile()).toEqual({})
    expect(world.spec()?.nodes).toEqual([OTHER, NODE])
  })

  it('does not wait again after a write that failed, and waits if it comes back', async () => {
    await world.reconcile()
    await world.clock.advance(200)
    world.failing = world.name('foo0')
    await expect(world.reconcile()).rejects.toThrow('cannot be served')
    world.failing = undefined
    expect(await world.reconcile()).toEqual({})
    await world.reconcile(seen())
    expect(await world.reconcile(seen('foo0'))).toEqual({ requeueAfterMs: 200 })
  })

  it('is left in the order of places, the last place first', async () => {
    const others = Array.from({ length: 19 }, (_, i) => `other-${i}` as NodeName)
    await world.createOfOthers('foo0', [others[0] ?? OTHER, NODE, ...others.slice(1)])
    await world.reconcile()
    expect(await world.reconcile(seen())).toEqual({ requeueAfterMs: 180 })
    expect(world.spec()?.nodes).toContain(NODE)
    await world.clock.advance(180)
    expect(await world.reconcile()).toEqual({})
    expect(world.spec()?.nodes).toEqual(others)
  })
})
