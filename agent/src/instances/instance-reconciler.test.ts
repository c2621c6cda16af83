import type {
  Configuration,
  ConfigurationManifest,
  ConfigurationName,
  InstanceName,
  Offer,
  SlotName,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { ObjectCache } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { DeviceSet } from '../discovery/device-set.js'
import { DEVICE_BOUNDS } from '../limits.js'
import { AllocationLedger } from '../slots/allocation-ledger.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { LostDevice } from '../slots/slot-events.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { checked, manifest } from '../testing/objects.js'
import { InstanceIndex } from './instance-index.js'
import { deviceDigest } from './instance-name.js'
import { InstanceReconciler } from './instance-reconciler.js'
import type { InstancePlugins } from './served-instance.js'

const NODE = 'node-a' as NodeName
const OTHER = 'node-b' as NodeName

let cluster: MemoryCluster
let wanted: ConfigurationManifest
let configuration: Configuration
let key: ObjectKey
/** What plugins and the cluster were asked for, in order. */
let calls: string[]
let lost: LostDevice[]
let failing: string | undefined
let devices: DeviceSet
let ledger: AllocationLedger
let instances: InstanceIndex
let reconciler: InstanceReconciler
/** Of a Configuration in another namespace. */
let older: Configuration['metadata']
let clock: ManualClock
/** The names that are refused. */
let refused: Set<string>
/** Of all plugins. */
let registered: Promise<void>
/** Ends the agent. */
let stop: AbortController

const plugins: InstancePlugins = {
  serveConfiguration: async ({ name }) => {
    calls.push(`serve ${name}`)
    return { registered }
  },
  withdrawConfiguration: async (which) => void calls.push(`withdraw ${which}`),
  serve: async ({ name, healthy }, { hasResource = true } = {}) => {
    const how = [!healthy && ' unhealthy', !hasResource && ' by its Configuration']
    calls.push(`serve ${name}${how.filter(Boolean).join('')}`)
    if (name === failing) throw new TypeError(`${name} cannot be served`)
    return { registered }
  },
  withdraw: async (name, { isGone } = {}) =>
    void calls.push(`withdraw ${isGone === true ? 'gone ' : ''}${name}`),
}
const book: Pick<SlotBook, 'lose'> = {
  lose: (_configuration, name) => void calls.push(`lose ${name}`),
}

beforeEach(async () => {
  cluster = new MemoryCluster()
  wanted = manifest()
  await cluster.apply(wanted)
  configuration = cluster.configurations.list()[0] ?? expect.fail()
  key = keyOf(configuration)
  clock = new ManualClock(1_000_000)
  calls = []
  lost = []
  failing = undefined
  refused = new Set()
  registered = Promise.resolve()
  stop = new AbortController()
  devices = seen('foo0')
  ledger = new AllocationLedger({ node: NODE, pods: undefined })
  instances = new InstanceIndex(cluster.instances, NODE, new AbortController().signal)
  cluster.instances.onChange(
    (which) => calls.push(`changed ${which.slice('default/'.length)}`),
    new AbortController().signal,
  )
  older = {
    ...configuration.metadata,
    namespace: 'line',
    uid: 'older',
    creationTimestamp: '2020-01-01T00:00:00Z',
  }
  reconciler = makeReconciler()
})

function makeReconciler(
  configurations: ObjectCache<Configuration> = cluster.configurations,
  bounds = DEVICE_BOUNDS,
): InstanceReconciler {
  const options = {
    cluster,
    instances,
    bounds,
    configurations: new AcceptedConfigurations(configurations, new AbortController().signal),
    plugins,
    book,
    ledger,
    node: NODE,
    clock,
    log: silentLogger,
    signal: stop.signal,
    deviceSet: () => devices,
    deviceLost: (device: LostDevice) => void lost.push(device),
    names: {
      admit: ({ name, isKnown }: { name: string; isKnown: boolean }) =>
        refused.has(name) && !isKnown ? ({ why: 'full', retryInMs: 60_000 } as const) : undefined,
    },
  }
  return new InstanceReconciler(options, { random: () => 0.5 })
}

function seen(...ids: string[]): DeviceSet {
  return {
    complete: true,
    leftOut: undefined,
    devices: new Map(
      ids.map((id) => {
        const device = checked({ id, properties: { NAME: id } })
        return [id, { device, shared: true, healthy: true, endpoint: 'e' }]
      }),
    ),
  }
}

const edit = (capacity: number) => cluster.apply({ ...wanted, spec: { ...wanted.spec, capacity } })

const createOfOthers = (id: string, nodes: readonly NodeName[], cdiName = '', annotations = {}) =>
  cluster.createInstance({
    name: nameOf(id) as InstanceName,
    namespace: 'default',
    annotations,
    owner: configuration,
    spec: {
      configurationName: configuration.metadata.name,
      cdiName,
      capacity: 1,
      brokerProperties: {},
      shared: true,
      nodes,
      deviceUsage: {},
    },
  })

const PLACE = { shared: true } as const
const nameOf = (id: string) => `${wanted.name}-${deviceDigest(id, PLACE)}`
const instanceOf = (id: string) => cluster.instances.get(objectKey('default', nameOf(id)))

describe('the Instances of a node', () => {
  it('R104 R15 are served before they are created, after their Configuration', async () => {
    await reconciler.reconcile(key)
    expect(calls).toEqual([
      `serve ${wanted.name}`,
      `serve ${nameOf('foo0')}`,
      `changed ${nameOf('foo0')}`,
    ])
    expect(instanceOf('foo0')?.spec).toMatchObject({
      nodes: [NODE],
      shared: true,
      brokerProperties: { NAME: 'foo0' },
    })
  })

  it('are created while the kubelet registers their plugins', async () => {
    let register = () => {}
    registered = new Promise((resolve) => {
      register = resolve
    })
    const reconciling = reconciler.reconcile(key)
    await eventually(() => expect(instanceOf('foo0')).toBeDefined())
    register()
    expect(await reconciling).toEqual({})
  })

  it('are created although a plugin has no list, which is tried again', async () => {
    registered = Promise.reject(new TypeError('no list'))
    await expect(reconciler.reconcile(key)).rejects.toThrow('no list')
    expect(instanceOf('foo0')).toBeDefined()
    registered = Promise.resolve()
    calls = []
    await reconciler.reconcile(key)
    expect(calls).toEqual([`serve ${wanted.name}`, `serve ${nameOf('foo0')}`])
  })

  it('are behind from the first device until a pass planned it, and after a change', async () => {
    const plan = (next: DeviceSet) => {
      devices = next
      return reconciler.isBehind(key)
    }
    expect(plan({ ...seen(), complete: false })).toBe(false)
    expect(plan(seen('foo0'))).toBe(true)
    await reconciler.reconcile(key)
    expect(reconciler.isBehind(key)).toBe(false)
    expect(plan(seen('foo0', 'foo1'))).toBe(true)
    expect(plan(seen())).toBe(true)
  })

  it('are planned again after a change of them, but not of claims and of other nodes', async () => {
    const changed: ObjectKey[] = []
    reconciler.onChange((which) => changed.push(which), new AbortController().signal)
    await reconciler.reconcile(key)
    expect(changed).toEqual([key])
    await reconciler.reconcile(key)
    const instance = objectKey('default', nameOf('foo0'))
    await cluster.claimSlot(instance, `${nameOf('foo0')}-0` as SlotName, NODE)
    await cluster.releaseSlot(instance, `${nameOf('foo0')}-0` as SlotName, NODE)
    expect(changed).toEqual([key])
    await cluster.joinInstance(instance, OTHER)
    expect(changed).toEqual([key])
    await cluster.updateInstance(instance, { capacity: 9, brokerProperties: {} })
    expect(changed).toEqual([key, key])
  })

  it('are planned again after claims of a device with a long name, and of no other', async () => {
    const ids = collidingIds()
    devices = seen('foo0', ...ids)
    await reconciler.reconcile(key)
    await reconciler.reconcile(key)
    const changed: ObjectKey[] = []
    reconciler.onChange((which) => changed.push(which), new AbortController().signal)
    const claim = (name: string) =>
      cluster.claimSlot(objectKey('default', name), `${name}-0` as SlotName, NODE)
    await claim(nameOf('foo0'))
    expect(changed).toEqual([])
    await claim(`${wanted.name}-${deviceDigest(ids[1], PLACE, 'long')}`)
    expect(changed).toEqual([key])
  })

  it('are left and served no more once their Configuration is refused', async () => {
    await reconciler.reconcile(key)
    const rivals = new ObjectStore<Configuration>()
    for (const each of [configuration, { ...configuration, metadata: older }]) rivals.put(each)
    calls = []
    const refusing = makeReconciler(rivals)
    await refusing.reconcile(key)
    expect(calls).toEqual([`withdraw ${key}`, `changed ${nameOf('foo0')}`])
    expect(instanceOf('foo0')).toBeUndefined()
    // Another node still has its Instance: this node only leaves.
    calls = []
    await reconciler.reconcile(key)
    await cluster.joinInstance(objectKey('default', nameOf('foo0')), OTHER)
    await refusing.reconcile(key)
    expect(instanceOf('foo0')?.spec.nodes).toEqual([OTHER])
  })

  it('have no Instance of a name that an older Configuration has, until it is gone', async () => {
    const rivals = new ObjectStore<Configuration>()
    const name = nameOf('foo0') as ConfigurationName
    const owner = { ...configuration, metadata: { ...older, name } }
    for (const each of [configuration, owner]) rivals.put(each)
    const clashing = makeReconciler(rivals)
    devices = seen('foo0', 'foo1')
    await clashing.reconcile(key)
    expect(cluster.instances.list().map(({ metadata }) => metadata.name)).toEqual([nameOf('foo1')])
    expect(clashing.view(key).taken).toEqual([{ device: 'foo0', owner: `line/${name}` }])
    expect(calls).not.toContain(`serve ${name}`)
    rivals.remove(keyOf(owner))
    await clashing.reconcile(key)
    expect(instanceOf('foo0')).toBeDefined()
    expect(clashing.view(key).taken).toEqual([])
  })

  it('R84 record the claims of running containers from their creation on', async () => {
    ledger.record({
      slot: `${nameOf('foo0')}-1` as SlotName,
      resourceName: `akri.sh/${wanted.name}`,
      id: '0',
    })
    const seenUsages: unknown[] = []
    cluster.instances.onChange(
      () => seenUsages.push(instanceOf('foo0')?.spec.deviceUsage),
      new AbortController().signal,
    )
    await reconciler.reconcile(key)
    expect(seenUsages).toEqual([
      expect.objectContaining({ [`${nameOf('foo0')}-1`]: `C:0:${NODE}` }),
    ])
  })

  it('A9 have the properties of a Configuration that was edited before the list', async () => {
    devices = { complete: false, leftOut: undefined, devices: new Map() }
    await reconciler.reconcile(key)
    const edited = { ...wanted, spec: { ...wanted.spec, brokerProperties: { EDITED: 'yes' } } }
    await cluster.apply(edited)
    await reconciler.reconcile(key)
    expect(cluster.instances.list()).toEqual([])
    devices = seen('foo0')
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.brokerProperties).toEqual({ EDITED: 'yes', NAME: 'foo0' })
  })

  it.each(['', 'akri.sh', 'akri.sh/cam', 'a=b=c', '/='])(
    'A9 are joined where the name for CDI is %j',
    async (cdiName) => {
      await createOfOthers('foo0', [OTHER], cdiName)
      await reconciler.reconcile(key)
      expect(instanceOf('foo0')?.spec).toMatchObject({ cdiName, nodes: [OTHER, NODE] })
      expect(calls).toContain(`serve ${nameOf('foo0')}`)
    },
  )

  it('are not written if nothing has changed', async () => {
    await reconciler.reconcile(key)
    const before = instanceOf('foo0')
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')).toBe(before)
  })

  it('R98 are joined if another node has created them, and left with their device', async () => {
    await reconciler.reconcile(key)
    await cluster.joinInstance(objectKey('default', nameOf('foo0')), OTHER)
    await cluster.leaveInstance(objectKey('default', nameOf('foo0')), NODE)
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.nodes).toEqual([OTHER, NODE])
    devices = seen()
    calls = []
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.nodes).toEqual([OTHER])
    // A device that the node leaves is not offered.
    expect(calls).toEqual([
      `serve ${wanted.name}`,
      `withdraw gone ${nameOf('foo0')}`,
      `changed ${nameOf('foo0')}`,
    ])
  })

  it('R46 R47 are deleted with their device, and recreated when the device returns', async () => {
    await reconciler.reconcile(key)
    const before = instanceOf('foo0')
    devices = seen()
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')).toBeUndefined()
    devices = seen('foo0')
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec).toEqual(before?.spec)
    expect(lost).toEqual([{ id: 'foo0', instance: nameOf('foo0') }])
    expect(calls.filter((call) => call.endsWith(nameOf('foo0')))).toEqual([
      `serve ${nameOf('foo0')}`,
      `changed ${nameOf('foo0')}`,
      `withdraw gone ${nameOf('foo0')}`,
      `changed ${nameOf('foo0')}`,
      `serve ${nameOf('foo0')}`,
      `changed ${nameOf('foo0')}`,
    ])
  })

  it('A10 A13 are recreated with the claims of containers after their deletion', async () => {
    await reconciler.reconcile(key)
    const at = objectKey('default', nameOf('foo0'))
    await cluster.joinInstance(at, OTHER)
    // Of these nodes the first one would write the capacity, and who has left would join.
    const leaving = async () => {
      await edit(3)
      const before = instanceOf('foo0') ?? expect.fail()
      const deleted = {
        ...before,
        metadata: { ...before.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      }
      cluster.instances.put(deleted)
      expect(await reconciler.reconcile(key)).toEqual({})
      expect(instanceOf('foo0')).toBe(deleted)
      cluster.instances.put(before)
    }
    await leaving()
    await cluster.leaveInstance(at, NODE)
    await leaving()
    await cluster.leaveInstance(at, OTHER)
    ledger.record({
      slot: `${nameOf('foo0')}-1` as SlotName,
      resourceName: `akri.sh/${nameOf('foo0')}`,
      id: `${nameOf('foo0')}-1`,
    })
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec).toMatchObject({ nodes: [NODE], capacity: 3 })
    expect(instanceOf('foo0')?.spec.deviceUsage).toMatchObject({ [`${nameOf('foo0')}-1`]: NODE })
    expect(calls).not.toContain(`withdraw ${nameOf('foo0')}`)
  })

  it('A11 are written by the first of their nodes only', async () => {
    await reconciler.reconcile(key)
    const at = objectKey('default', nameOf('foo0'))
    await cluster.joinInstance(at, OTHER)
    const change = () => {
      devices = {
        ...devices,
        devices: new Map([
          [
            'foo0',
            {
              device: checked({ id: 'foo0', properties: { NAME: 'new' } }),
              shared: true,
              healthy: true,
              endpoint: 'e',
            },
          ],
        ]),
      }
    }
    change()
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.brokerProperties).toEqual({ NAME: 'new' })
    await cluster.leaveInstance(at, NODE)
    await cluster.joinInstance(at, NODE)
    await cluster.updateInstance(at, {
      capacity: 1,
      brokerProperties: { NAME: 'as the other sees it' },
    })
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.brokerProperties).toEqual({ NAME: 'as the other sees it' })
  })

  it('A11 A20 get a new capacity from the next node if the first does not write it', async () => {
    const at = objectKey('default', nameOf('foo0'))
    await reconciler.reconcile(key)
    await cluster.joinInstance(at, OTHER)
    await cluster.leaveInstance(at, NODE)
    await cluster.updateInstance(at, {
      capacity: 1,
      brokerProperties: { NAME: 'as the other sees it' },
    })
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.nodes).toEqual([OTHER, NODE])
    await edit(3)
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 5000 })
    await clock.advance(4000)
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 1000 })
    expect(instanceOf('foo0')?.spec.capacity).toBe(1)
    await clock.advance(1000)
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(instanceOf('foo0')?.spec).toMatchObject({
      capacity: 3,
      brokerProperties: { NAME: 'as the other sees it' },
    })
  })

  it('A11 keep their capacity if the cache is behind an edit that another follows', async () => {
    const at = objectKey('default', nameOf('foo0'))
    await reconciler.reconcile(key)
    await cluster.joinInstance(at, OTHER)
    await cluster.leaveInstance(at, NODE)
    await cluster.joinInstance(at, NODE)
    const heard = cluster.configurations.get(key)
    await edit(3)
    await cluster.updateInstance(at, { capacity: 3 })
    const behind = vi.spyOn(cluster.configurations, 'get').mockReturnValue(heard)
    vi.spyOn(cluster, 'readConfiguration').mockResolvedValue(cluster.configurations.list()[0])
    await reconciler.reconcile(key)
    await clock.advance(60_000)
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.capacity).toBe(3)
    behind.mockRestore()
  })

  it('A2 are kept while the set of devices is incomplete', async () => {
    await reconciler.reconcile(key)
    devices = { complete: false, leftOut: undefined, devices: new Map() }
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')?.spec.nodes).toEqual([NODE])
  })

  it('come about although one of them fails, and the failure is told', async () => {
    devices = seen('foo0', 'foo1')
    failing = nameOf('foo0')
    await expect(reconciler.reconcile(key)).rejects.toThrow('cannot be served')
    expect(instanceOf('foo0')).toBeUndefined()
    expect(instanceOf('foo1')).toBeDefined()
    failing = undefined
    await reconciler.reconcile(key)
    expect(instanceOf('foo0')).toBeDefined()
  })

  it('are lost if devices went while no agent ran, once all handlers have answered', async () => {
    const allocated = (id: string, resourceName: string) =>
      ledger.record({ slot: `${nameOf(id)}-0` as SlotName, resourceName, id })
    allocated('foo0', `akri.sh/${wanted.name}`)
    allocated('foo1', `akri.sh/${wanted.name}-other`)
    allocated('foo2', `akri.sh/${nameOf('foo2')}`)
    const losses = () => calls.filter((call) => call.startsWith('lose'))
    allocated('foo4', `akri.sh/${wanted.name}`)
    await createOfOthers('foo4', [NODE], '', { 'akri.sh/device-id': 'foo4' })
    devices = { ...seen('foo3'), complete: false }
    await reconciler.reconcile(key)
    expect(losses()).toEqual([])
    devices = seen('foo3')
    await reconciler.reconcile(key)
    expect(losses()).toEqual(['foo0', 'foo2', 'foo4'].map((id) => `lose ${nameOf(id)}`))
    expect(lost).toEqual([
      { id: undefined, instance: nameOf('foo0') },
      { id: undefined, instance: nameOf('foo2') },
      { id: 'foo4', instance: nameOf('foo4') },
    ])
    await reconciler.reconcile(key)
    expect(losses()).toHaveLength(3)
  })

  it('are not lost with a device that is listed beyond a bound', async () => {
    await reconciler.reconcile(key)
    const resourceName = `akri.sh/${wanted.name}`
    ledger.record({ slot: `${nameOf('foo0')}-0` as SlotName, resourceName, id: '0' })
    const { devices: listed } = devices
    devices = { ...seen(), leftOut: { devices: 1, bound: 'slots', listed } }
    calls = []
    await reconciler.reconcile(key)
    expect(calls).toContain(`withdraw ${nameOf('foo0')}`)
    // As after a restart of the agent.
    reconciler = makeReconciler()
    await reconciler.reconcile(key)
    expect(calls).not.toContain(`lose ${nameOf('foo0')}`)
    expect(lost).toEqual([])
  })

  it('are not lost with a device that is found again', async () => {
    const resourceName = `akri.sh/${wanted.name}`
    ledger.record({ slot: `${nameOf('foo0')}-0` as SlotName, resourceName, id: '0' })
    await reconciler.reconcile(key)
    expect(calls).not.toContain(`lose ${nameOf('foo0')}`)
  })

  it('are written no more once the agent ends', async () => {
    devices = seen(...Array.from({ length: 100 }, (_, index) => `foo${index}`))
    const create = cluster.createInstance.bind(cluster)
    const creating = vi.spyOn(cluster, 'createInstance').mockImplementation((draft) => {
      stop.abort()
      return create(draft)
    })
    await reconciler.reconcile(key)
    // Those that were under way.
    expect(creating.mock.calls.length).toBeLessThanOrEqual(16)
  })

  it('are withdrawn with their Configuration', async () => {
    await reconciler.reconcile(key)
    await cluster.apply()
    calls = []
    await reconciler.reconcile(key)
    expect(lost).toEqual([])
    expect(calls).toEqual([`withdraw ${key}`, `withdraw ${nameOf('foo0')}`])
  })

  /** The devices of a Configuration that no handler has answered for. */
  const unknown = (): DeviceSet => ({ ...seen(), complete: false })

  it.each(['serveConfiguration', 'serve'] as const)(
    'are not lost if their Configuration is deleted during a pass (%s)',
    async (method) => {
      await reconciler.reconcile(key)
      const [found] = devices.devices.values()
      devices = {
        ...devices,
        devices: new Map([['foo0', { ...(found ?? expect.fail()), healthy: false }]]),
      }
      const call = vi.spyOn(plugins, method).mockImplementation(async () => {
        await cluster.apply()
        devices = unknown()
        return { registered }
      })
      await reconciler.reconcile(key)
      call.mockRestore()
      await reconciler.reconcile(key)
      expect(calls.slice(-2)).toEqual([`withdraw ${key}`, `withdraw ${nameOf('foo0')}`])
      expect(lost).toEqual([])
    },
  )

  it('are not lost while their Configuration is deleted and created again', async () => {
    await reconciler.reconcile(key)
    await cluster.apply()
    await cluster.apply(wanted)
    expect(cluster.configurations.get(key)?.metadata.uid).not.toBe(configuration.metadata.uid)
    devices = unknown()
    calls = []
    await reconciler.reconcile(key)
    expect(calls).toEqual([`withdraw ${key}`, `withdraw ${nameOf('foo0')}`, `serve ${wanted.name}`])
    expect(lost).toEqual([])
    ledger.record({
      slot: `${nameOf('foo0')}-0` as SlotName,
      resourceName: `akri.sh/${wanted.name}`,
      id: '0',
    })
    devices = seen()
    await reconciler.reconcile(key)
    expect(lost).toMatchObject([{ instance: nameOf('foo0') }])
  })

  /**
   * Reconciles 200 devices, and changes the world when the first Instance is there.
   * @returns how many Instances were created
   */
  const createdUntil = async (change: () => Promise<void> | void): Promise<number> => {
    devices = seen(...Array.from({ length: 200 }, (_, index) => `foo${index}`))
    const create = cluster.createInstance.bind(cluster)
    let changing: Promise<void> | undefined
    const creating = vi.spyOn(cluster, 'createInstance').mockImplementation(async (draft) => {
      const outcome = await create(draft)
      changing ??= Promise.resolve(change())
      await changing
      return outcome
    })
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 0 })
    return creating.mock.calls.length
  }

  it.each<[string, () => Promise<void> | void]>([
    ['their Configuration is deleted', () => cluster.apply()],
    ['their Configuration is edited', () => edit(3)],
    [
      'their devices are gone',
      () => {
        devices = seen('foo0')
      },
    ],
  ])('are created no more while %s', async (_, change) => {
    // Those that were under way.
    expect(await createdUntil(change)).toBeLessThanOrEqual(2 * 16)
    expect(calls.filter((call) => call.startsWith('serve')).length).toBeLessThanOrEqual(2 * 16 + 1)
  })

  describe('of a list that changes with each write', () => {
    const flapping = Array.from({ length: 80 }, (_, index) => `a-${index}`)
    let version = 0

    /** Lists other properties of the flapping devices, and the same steady devices. */
    const flap = (...steady: string[]) => {
      version++
      const all = [...seen(...flapping, ...steady).devices].map(([id, found]) => {
        const properties = { NAME: id, ...(id.startsWith('a-') && { VERSION: String(version) }) }
        return [id, { ...found, device: checked({ id, properties }) }] as const
      })
      devices = { ...devices, devices: new Map(all) }
    }

    const flapWithEachWrite = (...steady: string[]) => {
      flap(...steady)
      const { updateInstance, createInstance } = cluster
      vi.spyOn(cluster, 'updateInstance').mockImplementation((...args) => {
        flap(...steady)
        return updateInstance.apply(cluster, args)
      })
      vi.spyOn(cluster, 'createInstance').mockImplementation((...args) => {
        flap(...steady)
        return createInstance.apply(cluster, args)
      })
    }

    beforeEach(async () => {
      devices = seen(...flapping)
      await reconciler.reconcile(key)
    })

    it('are created for new devices and left with gone ones, each in its turn', async () => {
      devices = seen(...flapping, 'gone')
      await reconciler.reconcile(key)
      expect(instanceOf('gone')).toBeDefined()
      flapWithEachWrite('z-new')
      for (let pass = 0; pass < flapping.length; pass++) await reconciler.reconcile(key)
      expect(instanceOf('z-new')).toBeDefined()
      expect(instanceOf('gone')).toBeUndefined()
    })

    it('are offered as healthy or unhealthy at once, before any write', async () => {
      flapWithEachWrite()
      await reconciler.reconcile(key)
      const [last] = [...devices.devices.values()].slice(-1)
      const { device } = last ?? expect.fail()
      devices = {
        ...devices,
        devices: new Map(devices.devices).set(device.id, {
          device,
          shared: true,
          healthy: false,
          endpoint: 'e',
        }),
      }
      calls = []
      await reconciler.reconcile(key)
      const offline = calls.indexOf(`serve ${nameOf(device.id)} unhealthy`)
      expect(offline).toBeGreaterThanOrEqual(0)
      expect(offline).toBeLessThan(calls.findIndex((call) => call.startsWith('changed')))
    })

    it('take a burst of changes, and then a rate, and delay no other Configuration', async () => {
      const other = { ...wanted, name: 'other' as ConfigurationName }
      await cluster.apply(wanted, other)
      devices = seen()
      await reconciler.reconcile(key)
      reconciler = makeReconciler(cluster.configurations, { ...DEVICE_BOUNDS, perNode: 20 })
      devices = seen(...flapping)
      const created = (name: string) =>
        cluster.instances.list().filter(({ spec }) => spec.configurationName === name).length
      for (let pass = 0; pass < 20; pass++)
        expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 1000 })
      // The resource of the Configuration is a change too.
      expect(created(wanted.name)).toBe(39)
      devices = seen(...flapping.slice(0, 15))
      expect(await reconciler.reconcile(objectKey('default', other.name))).toEqual({})
      expect(created(other.name)).toBe(15)
      devices = seen(...flapping)
      await clock.advance(1000)
      for (let pass = 0; pass < 20; pass++) await reconciler.reconcile(key)
      expect(created(wanted.name)).toBe(59)
    })
  })

  it('wait while the Node has no room for their name, are counted, and come later', async () => {
    devices = seen('foo0', 'foo1')
    refused = new Set([nameOf('foo1'), configuration.metadata.name])
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 60_000 })
    expect(reconciler.view(key).refusals).toHaveLength(2)
    expect(calls).toEqual([`serve ${nameOf('foo0')}`, `changed ${nameOf('foo0')}`])
    refused.clear()
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(reconciler.view(key).refusals).toEqual([])
    expect(instanceOf('foo1')).toBeDefined()
    expect(calls).toContain(`serve ${configuration.metadata.name}`)
  })

  it('are served whatever the Node has room for, if the Node has their name already', async () => {
    await reconciler.reconcile(key)
    refused = new Set([nameOf('foo0'), configuration.metadata.name])
    expect(await reconciler.reconcile(key)).toEqual({})
    calls = []
    // As after a restart of the agent.
    reconciler = makeReconciler()
    await reconciler.reconcile(key)
    expect(calls).toContain(`serve ${nameOf('foo0')}`)
  })

  const offerOnly = (offer: Offer) => cluster.apply({ ...wanted, spec: { ...wanted.spec, offer } })

  it('need no names of resources if their Configuration alone is offered', async () => {
    await offerOnly('configuration')
    refused = new Set([nameOf('foo0')])
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(calls).toEqual([
      `serve ${wanted.name}`,
      `serve ${nameOf('foo0')} by its Configuration`,
      `changed ${nameOf('foo0')}`,
    ])
    // The name is asked for when the Instance is offered too.
    calls = []
    await offerOnly('both')
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 60_000 })
    expect(reconciler.view(key).refusals).toHaveLength(1)
    expect(new Set(calls)).toEqual(
      new Set([`serve ${wanted.name}`, `serve ${nameOf('foo0')} by its Configuration`]),
    )
    refused.clear()
    calls = []
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(calls).toContain(`serve ${nameOf('foo0')}`)
  })

  it('stay while their resources, or that of their Configuration, are withdrawn', async () => {
    await reconciler.reconcile(key)
    const before = instanceOf('foo0')
    calls = []
    await offerOnly('configuration')
    await reconciler.reconcile(key)
    await offerOnly('instance')
    await reconciler.reconcile(key)
    await reconciler.reconcile(key)
    expect(calls.filter((call) => !call.startsWith('serve'))).toEqual([`withdraw ${key}`])
    expect(calls.at(-1)).toBe(`serve ${nameOf('foo0')}`)
    expect(instanceOf('foo0')).toBe(before)
  })

  it('of devices that have not changed cost no plugin anything', async () => {
    const ids = Array.from({ length: 200 }, (_, index) => `foo${index}`)
    devices = seen(...ids)
    await reconciler.reconcile(key)
    await reconciler.reconcile(key)
    calls = []
    await reconciler.reconcile(key)
    expect(calls).toEqual([`serve ${wanted.name}`])
    const foo7 = devices.devices.get('foo7') ?? expect.fail()
    devices = seen(...ids)
    devices = {
      ...devices,
      devices: new Map([...devices.devices, ['foo7', { ...foo7, healthy: false }]]),
    }
    await reconciler.reconcile(key)
    expect(calls.slice(1)).toEqual([`serve ${wanted.name}`, `serve ${nameOf('foo7')} unhealthy`])
  })

  it('are one for each of two devices with one short digest, also after a restart', async () => {
    const ids = collidingIds()
    devices = seen(...ids)
    await reconciler.reconcile(key)
    const names = [nameOf(ids[0]), `${wanted.name}-${deviceDigest(ids[1], PLACE, 'long')}`]
    const list = () => cluster.instances.list().map(({ metadata }) => metadata.name)
    expect(list()).toEqual(names)
    expect(reconciler.view(key).collisions).toEqual([])
    const [, second] = cluster.instances.list()
    expect(second?.spec.cdiName).toBe(names[1]?.replace(/^(.*)-/, 'akri.sh/$1='))
    reconciler = makeReconciler()
    devices = seen(ids[1])
    await reconciler.reconcile(key)
    expect(list()).toEqual(names.slice(1))
    devices = seen(...ids)
    await reconciler.reconcile(key)
    expect(list().sort()).toEqual(names.sort())
  })

  it('report once a device that finds no name of its own', async () => {
    const ids = collidingIds()
    const name = 'l'.repeat(47) as ConfigurationName
    wanted = { ...wanted, name }
    await cluster.apply(wanted)
    key = objectKey('default', name)
    devices = seen(...ids)
    await reconciler.reconcile(key)
    await reconciler.reconcile(key)
    expect(cluster.instances.list()).toHaveLength(1)
    expect(reconciler.view(key).collisions).toMatchObject([{ kept: ids[0], refused: ids[1] }])
    expect(cluster.events).toMatchObject([{ reason: 'DigestCollision' }])
  })
})

describe('a shared device that all nodes see at once', () => {
  beforeEach(() => {
    Object.defineProperty(cluster, 'knownNodes', { value: 21 })
  })

  it('gets its Instance after a random wait that grows with the number of nodes', async () => {
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 200 })
    expect(instanceOf('foo0')).toBeUndefined()
    await clock.advance(199)
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 1 })
    await clock.advance(1)
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(instanceOf('foo0')?.spec.nodes).toEqual([NODE])
  })

  it('is joined at once if another node was first', async () => {
    await reconciler.reconcile(key)
    await createOfOthers('foo0', [OTHER])
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(instanceOf('foo0')?.spec.nodes).toEqual([OTHER, NODE])
  })

  it('does not wait again after a write that failed, and waits if it comes back', async () => {
    await reconciler.reconcile(key)
    await clock.advance(200)
    failing = nameOf('foo0')
    await expect(reconciler.reconcile(key)).rejects.toThrow('cannot be served')
    failing = undefined
    expect(await reconciler.reconcile(key)).toEqual({})
    devices = seen()
    await reconciler.reconcile(key)
    devices = seen('foo0')
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 200 })
  })

  it('is left in the order of places, the last place first', async () => {
    const others = Array.from({ length: 19 }, (_, i) => `other-${i}` as NodeName)
    await createOfOthers('foo0', [others[0] ?? OTHER, NODE, ...others.slice(1)])
    await reconciler.reconcile(key)
    devices = seen()
    expect(await reconciler.reconcile(key)).toEqual({ requeueAfterMs: 180 })
    expect(instanceOf('foo0')?.spec.nodes).toContain(NODE)
    await clock.advance(180)
    expect(await reconciler.reconcile(key)).toEqual({})
    expect(instanceOf('foo0')?.spec.nodes).toEqual(others)
  })
})
