import { API_VERSION, type ConfigurationName, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { instanceWith } from '../testing/objects.js'
import { InstanceIndex } from './instance-index.js'

const NODE = 'node-a' as NodeName
const OTHER = 'node-b' as NodeName
const CONFIGURATIONS = ['cam', 'mic', 'lab'].map((name) => name as ConfigurationName)

/** An Instance that names one Configuration in its spec, and others as its owners. */
const anyInstance = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c', 'd'),
    configurationName: fc.constantFrom(...CONFIGURATIONS),
    owners: fc.uniqueArray(fc.constantFrom(...CONFIGURATIONS), { maxLength: 2 }),
  })
  .map(({ name, configurationName, owners }) =>
    instanceWith(
      {},
      { configurationName },
      {
        name: name as InstanceName,
        ownerReferences: owners.map((owner) => ({
          apiVersion: API_VERSION,
          kind: 'Configuration',
          name: owner,
          uid: 'u1',
        })),
      },
    ),
  )

const names = (instance: Instance, configuration: ConfigurationName) =>
  instance.spec.configurationName === configuration ||
  instance.metadata.ownerReferences?.some(({ name }) => name === configuration) === true

it('has the Instances of each Configuration after any changes, and tells of each change', () => {
  const change = fc.record({ instance: anyInstance, isRemoved: fc.boolean() })
  fc.assert(
    fc.property(fc.array(anyInstance), fc.array(change), (first, changes) => {
      const store = new ObjectStore<Instance>()
      for (const instance of first) store.put(instance)
      const { signal } = new AbortController()
      const index = new InstanceIndex(store, NODE, signal)
      const told = new Set<ObjectKey>()
      index.onChange((configuration) => told.add(configuration), signal)
      const found = (name: ConfigurationName) =>
        [...index.of(`default/${name}` as ObjectKey)].map(keyOf).sort()
      for (const { instance, isRemoved } of changes) {
        const before = CONFIGURATIONS.map(found)
        told.clear()
        if (isRemoved) store.remove(keyOf(instance))
        else store.put(instance)
        for (const [at, name] of CONFIGURATIONS.entries()) {
          const listed = store.list().filter((each) => names(each, name))
          expect(found(name)).toEqual(listed.map(keyOf).sort())
          if (before[at]?.join() !== found(name).join()) expect(told).toContain(`default/${name}`)
        }
      }
    }),
  )
})

it('tells changes of claims, reports and other nodes from all others', () => {
  const store = new ObjectStore<Instance>()
  const first = instanceWith({ 'cam-1-0': '' }, {}, { labels: { a: 'b' } })
  const { signal } = new AbortController()
  const seen: boolean[] = []
  new InstanceIndex(store, NODE, signal).onChange(
    (_of, _name, isMinor) => seen.push(isMinor),
    signal,
  )
  const isMinor = (change: Partial<Instance>) => {
    store.put(first)
    store.put({ ...first, ...change })
    return seen.at(-1)
  }
  const spec = (change: Partial<Instance['spec']>) => ({ spec: { ...first.spec, ...change } })
  const metadata = (change: Partial<Instance['metadata']>) => ({
    metadata: { ...first.metadata, ...change },
  })
  expect(isMinor(spec({ deviceUsage: { 'cam-1-0': 'node-a' } }))).toBe(true)
  expect(isMinor(spec({ nodes: [NODE, OTHER] }))).toBe(true)
  expect(isMinor(spec({ nodes: [OTHER, NODE] }))).toBe(false)
  expect(isMinor({ status: { brokerInfo: { a: 'b' } } })).toBe(true)
  expect(isMinor(metadata({ generation: 7, resourceVersion: '7' }))).toBe(true)
  for (const change of [{ capacity: 9 }, { nodes: [] }, { brokerProperties: { A: 'b' } }])
    expect(isMinor(spec(change))).toBe(false)
  for (const change of [{ labels: {} }, { uid: 'other' }, { deletionTimestamp: 'now' }])
    expect(isMinor(metadata(change))).toBe(false)
  store.remove(keyOf(first))
  expect(seen.at(-1)).toBe(false)
  store.put(first)
  expect(seen.at(-1)).toBe(false)
})
