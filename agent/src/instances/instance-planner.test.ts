import {
  API_VERSION,
  type Configuration,
  type ConfigurationName,
  type Instance,
  type InstanceName,
} from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube/objects'
import { ObjectStore } from '@akrijs/standalone'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { DeviceSet } from '../discovery/device-set.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { configurationWith, instanceWith } from '../testing/objects.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { InstanceIndex } from './instance-index.js'
import { deviceDigest } from './instance-name.js'
import { type InstancePlan, planInstances } from './instance-plan.js'
import { InstancePlanner } from './instance-planner.js'

const NODE = 'node-a' as NodeName
const OTHER = 'node-b' as NodeName
/** The first three have one short digest; the last two have one printable text. */
const IDS = ['camera-16258', 'camera-26847', 'camera-60728', 'camera-1', 'a\u0001', 'a\u0002']
const LOCAL = collidingIds(NODE)
const NO_MEMORY = { deviceOf: () => undefined, longInUse: new Set<InstanceName>() }

const anyDevice = fc.record({
  id: fc.constantFrom(...IDS, ...LOCAL),
  shared: fc.boolean(),
  healthy: fc.boolean(),
  version: fc.nat(1),
})
const anyDevices = fc.uniqueArray(anyDevice, { selector: ({ id }) => id })
const anyInstance = fc
  .record({
    id: fc.constantFrom(...IDS, ...LOCAL),
    text: fc.constantFrom('own', 'none', ...IDS),
    length: fc.constantFrom('short', 'long'),
    shared: fc.boolean(),
    nodes: fc.subarray([NODE, OTHER]),
    claimedBy: fc.constantFrom('', NODE, OTHER),
    uid: fc.constantFrom('u1', 'u1', 'u1', 'u2'),
    isOdd: fc.nat(9).map((number) => number === 0),
  })
  .map(({ id, text, length, shared, nodes, claimedBy, uid, isOdd }) => {
    const place = shared ? ({ shared } as const) : ({ shared, node: NODE } as const)
    const name = (isOdd ? 'odd' : `lab-${deviceDigest(id, place, length)}`) as InstanceName
    return instanceWith(
      { [`${name}-0`]: claimedBy },
      { configurationName: 'lab' as ConfigurationName, nodes, shared },
      {
        name,
        ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid }],
        ...(text !== 'none' && { annotations: deviceIdAnnotation(text === 'own' ? id : text) }),
      },
    )
  })

type Change = (typeof anyChange extends fc.Arbitrary<infer T> ? T : never) & object
const anyChange = fc.oneof(
  fc.record({ devices: anyDevices, complete: fc.boolean() }),
  fc.record({ put: anyInstance }),
  fc.record({ put: anyInstance }),
  fc.record({ remove: fc.nat() }),
  fc.record({ capacity: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ uid: fc.constantFrom('u1', 'u2') }),
  fc.record({ taken: fc.subarray(IDS.slice(0, 2)) }),
)

function deviceSet(
  devices: (typeof anyDevices extends fc.Arbitrary<infer T> ? T : never) & object,
) {
  return new Map(
    devices.map(({ id, shared, healthy, version }) => {
      const device = { id, properties: { VERSION: String(version) } }
      return [id, { device, shared, healthy, endpoint: 'e' }]
    }),
  )
}

/** A plan whose order does not matter. */
function comparable({ served, leave, collisions, taken }: InstancePlan) {
  const sorted = <T>(items: readonly T[]) => items.map((item) => JSON.stringify(item)).sort()
  return {
    served: sorted(served),
    leave: sorted(leave),
    collisions: sorted(collisions),
    taken: sorted(taken),
  }
}

it('the plan that follows changes is the plan that is made from all of their result', async () => {
  const run = async (changes: readonly Change[]) => {
    const store = new ObjectStore<Instance>()
    const { signal } = new AbortController()
    const instances = new InstanceIndex(store, signal)
    const planner = new InstancePlanner({ node: NODE, instances, memory: NO_MEMORY })
    instances.onChange((_, { instance }) => {
      planner.instanceChanged(instance.slice('default/'.length) as InstanceName)
    }, signal)
    let configuration: Configuration = configurationWith()
    let devices: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }
    let takenNames: ReadonlyMap<string, Configuration> = new Map()
    const edit = (metadata: Partial<Configuration['metadata']>, capacity: number) => {
      const generation = configuration.metadata.generation + 1
      configuration = configurationWith(
        { capacity },
        { ...configuration.metadata, ...metadata, generation },
      )
    }
    for (const change of changes) {
      if ('devices' in change)
        devices = { ...devices, ...change, devices: deviceSet(change.devices) }
      else if ('put' in change) store.put(change.put)
      else if ('remove' in change) {
        const all = store.list()
        const instance = all[change.remove % Math.max(1, all.length)]
        if (instance !== undefined) store.remove(keyOf(instance))
      } else if ('capacity' in change) edit({}, change.capacity)
      else if ('uid' in change) edit({ uid: change.uid }, configuration.spec.capacity)
      else
        takenNames = new Map(
          change.taken.map((id) => {
            const name = `lab-${deviceDigest(id, { shared: true })}` as ConfigurationName
            return [name, configurationWith({}, { name })]
          }),
        )
      await planner.follow({ configuration, takenNames, devices })
      const { served, left, collisions, taken } = planner
      const all = planInstances({
        ...{ configuration, takenNames, node: NODE, devices, instances: store.list() },
      })
      expect(
        comparable({ served: [...served.values()], leave: [...left.values()], collisions, taken }),
      ).toEqual(comparable(all))
    }
  }
  await fc.assert(fc.asyncProperty(fc.array(anyChange, { minLength: 1, maxLength: 30 }), run), {
    numRuns: 100,
  })
})

it.each<[string, string, boolean, string[], number]>([
  ['a shared Instance of its device before the node has joined', 'x', true, [OTHER], 1],
  ['no Instance of another device', 'y', true, [NODE], 0],
  ['no Instance of a device of another node', 'x', false, [OTHER], 0],
  ['the Instance of a device of its own', 'x', false, [NODE], 1],
])('counts %s', async (_, text, shared, nodes, present) => {
  const store = new ObjectStore<Instance>()
  const { signal } = new AbortController()
  const instances = new InstanceIndex(store, signal)
  const planner = new InstancePlanner({ node: NODE, instances, memory: NO_MEMORY })
  const devices = deviceSet([{ id: 'x', shared, healthy: true, version: 0 }])
  const configuration = configurationWith()
  await planner.follow({
    ...{ configuration, takenNames: new Map() },
    devices: { devices, complete: true, leftOut: undefined },
  })
  expect(planner.present).toBe(0)
  const place = shared ? ({ shared } as const) : ({ shared, node: NODE } as const)
  const name = `lab-${deviceDigest('x', place)}` as InstanceName
  const ownerReferences = [
    {
      apiVersion: API_VERSION,
      kind: 'Configuration',
      name: 'lab',
      uid: configuration.metadata.uid,
    },
  ]
  const annotations = deviceIdAnnotation(text)
  const spec = { shared, nodes: nodes as NodeName[] }
  store.put(instanceWith({}, spec, { name, ownerReferences, annotations }))
  planner.instanceChanged(name)
  await planner.follow({
    ...{ configuration, takenNames: new Map() },
    devices: { devices, complete: true, leftOut: undefined },
  })
  expect(planner.present).toBe(present)
  expect(planner.held).toEqual([])
  const finalizers = ['node-old']
  const deletion = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers }
  store.put(instanceWith({}, spec, { name, ownerReferences, annotations, ...deletion }))
  planner.instanceChanged(name)
  expect(planner.held).toEqual(present === 1 ? [{ name, finalizers }] : [])
  store.remove(objectKey('default', name))
  planner.instanceChanged(name)
  expect(planner.held).toEqual([])
})

it('plans one bucket for one change, whatever the number of devices', async () => {
  const store = new ObjectStore<Instance>()
  const { signal } = new AbortController()
  const instances = new InstanceIndex(store, signal)
  const planner = new InstancePlanner({ node: NODE, instances, memory: NO_MEMORY })
  instances.onChange((_, { instance }) => {
    planner.instanceChanged(instance.slice('default/'.length) as InstanceName)
  }, signal)
  const ids = Array.from({ length: 10_000 }, (_, index) => `device-${index}`)
  const found = ids.map((id) => ({ id, shared: true, healthy: true, version: 0 }))
  const input = {
    configuration: configurationWith(),
    takenNames: new Map(),
    devices: { devices: deviceSet(found), complete: true, leftOut: undefined } as DeviceSet,
  }
  await planner.follow(input)
  expect(planner.served.size).toBe(ids.length)
  const planned = async () => {
    const before = planner.bucketsPlanned
    const names = await planner.follow(input)
    return [planner.bucketsPlanned - before, names.size]
  }
  expect(await planned()).toEqual([0, 0])
  const [first = expect.fail()] = planner.served.values()
  const instance = instanceWith({}, { nodes: [NODE] }, { name: first.name })
  store.put(instance)
  expect(await planned()).toEqual([1, 1])
  const changed = new Map(input.devices.devices)
  for (const id of ids.slice(0, 3))
    changed.set(id, { ...(changed.get(id) ?? expect.fail()), healthy: false })
  input.devices = { ...input.devices, devices: changed }
  expect(await planned()).toEqual([3, 3])
})

it('ignores claims of a served Instance, unless another Instance has its device', async () => {
  const store = new ObjectStore<Instance>()
  const instances = new InstanceIndex(store, new AbortController().signal)
  const planner = new InstancePlanner({ node: NODE, instances, memory: NO_MEMORY })
  const configuration = configurationWith()
  const place = { shared: true } as const
  const short = `lab-${deviceDigest('x', place)}` as InstanceName
  const long = `lab-${deviceDigest('x', place, 'long')}` as InstanceName
  const follow = () => {
    const devices = deviceSet([{ id: 'x', shared: true, healthy: true, version: 0 }])
    return planner.follow({
      ...{ configuration, takenNames: new Map() },
      devices: { devices, complete: true, leftOut: undefined },
    })
  }
  expect(planner.ignoresUse(short)).toBe(false)
  await follow()
  expect(planner.ignoresUse(short)).toBe(true)
  expect(planner.ignoresUse(long)).toBe(false)
  const annotations = deviceIdAnnotation('x')
  const { uid } = configuration.metadata
  const ownerReferences = [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid }]
  store.put(instanceWith({}, { nodes: [NODE] }, { name: long, ownerReferences, annotations }))
  planner.instanceChanged(long)
  await follow()
  expect([...planner.served.keys()]).toEqual([long])
  expect(planner.ignoresUse(long)).toBe(false)
  store.put(instanceWith({}, { nodes: [NODE] }, { name: short, ownerReferences, annotations }))
  planner.instanceChanged(short)
  await follow()
  expect(planner.ignoresUse(short)).toBe(false)
  expect(planner.ignoresUse(long)).toBe(false)
})
