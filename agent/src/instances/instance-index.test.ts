import { API_VERSION, type ConfigurationName, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { instanceWith, NODE, OTHER } from '../testing/objects.js'
import { InstanceIndex } from './instance-index.js'

/** An Instance that names one Configuration in its spec, and another as its owner. */
function instanceOf(name: string, configuration: string, owner?: string): Instance {
  const reference = { apiVersion: API_VERSION, kind: 'Configuration', uid: 'u1' }
  return instanceWith(
    {},
    { configurationName: configuration as ConfigurationName },
    {
      name: name as InstanceName,
      ...(owner && { ownerReferences: [{ ...reference, name: owner }] }),
    },
  )
}

it('has the Instances of each Configuration that they name, and tells of each change', () => {
  const store = new ObjectStore<Instance>()
  store.put(instanceOf('a', 'cam'))
  const { signal } = new AbortController()
  const index = new InstanceIndex(store, NODE, signal)
  let told: string[] = []
  index.onChange((key, name) => told.push(`${name} of ${key}`), signal)
  const after = (change: () => void) => {
    told = []
    change()
    const found = ['cam', 'mic', 'lab'].map((name) => index.of(`default/${name}` as ObjectKey))
    return [found.map((of) => of.map(({ metadata }) => metadata.name)), told.sort()]
  }
  const [cam, lab, mic] = ['b of default/cam', 'b of default/lab', 'b of default/mic']
  const put = (...instance: Parameters<typeof instanceOf>) =>
    after(() => store.put(instanceOf(...instance)))
  expect(put('b', 'cam', 'mic')).toEqual([
    [['a', 'b'], ['b'], []],
    [cam, mic],
  ])
  expect(put('b', 'lab', 'mic')).toEqual([
    [['a'], ['b'], ['b']],
    [cam, lab, mic],
  ])
  expect(put('b', 'lab')).toEqual([
    [['a'], [], ['b']],
    [lab, mic],
  ])
  const removed = after(() => store.remove(keyOf(instanceOf('b', 'lab'))))
  expect(removed).toEqual([[['a'], [], []], [lab]])
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
