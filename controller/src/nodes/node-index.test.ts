import { type Instance, nodesOf } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testInstance } from '../testing/objects.js'
import { NodeIndex } from './node-index.js'

const NODES = ['a', 'b', 'c'] as NodeName[]
const NAMES = ['cam-1', 'cam-2', 'cam-3'] as const

/** The objects of a cache, which tells each change at once. */
class Instances {
  readonly #objects = new Map<ObjectKey, Instance>()
  readonly #listeners = new Listeners<[ObjectKey]>()

  get(key: ObjectKey): Instance | undefined {
    return this.#objects.get(key)
  }

  list(): Instance[] {
    return [...this.#objects.values()]
  }

  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  put(instance: Instance): void {
    this.#objects.set(keyOf(instance), instance)
    this.#listeners.tell(keyOf(instance))
  }

  remove(key: ObjectKey): void {
    if (this.#objects.delete(key)) this.#listeners.tell(key)
  }
}

const instance = fc
  .record({
    name: fc.constantFrom(...NAMES),
    // A person can write a node twice.
    nodes: fc.array(fc.constantFrom(...NODES), { maxLength: 4 }),
    usages: fc.array(fc.constantFrom('', 'unreadable:', 'a', 'b', 'c', 'C:0:a', 'C:1:b')),
  })
  .map(({ name, nodes, usages }): Instance => {
    const { spec, ...rest } = testInstance(nodes, { name })
    const slots = usages.map((usage, index) => [`${name}-${index}`, usage])
    return { ...rest, spec: { ...spec, deviceUsage: Object.fromEntries(slots) } }
  })
const put = instance.map((put) => ({ put }))
const remove = fc
  .constantFrom(...NAMES)
  .map((name) => ({ remove: keyOf(testInstance([], { name })) }))

describe('the index of Instances by node', () => {
  it('finds the same as a scan of all Instances, after any history', () => {
    fc.assert(
      fc.property(
        fc.array(put),
        fc.array(fc.oneof({ weight: 3, arbitrary: put }, remove)),
        (earlier, steps) => {
          const cache = new Instances()
          for (const { put } of earlier) cache.put(put)
          // The cache has objects when a replica begins to lead.
          const index = new NodeIndex(cache, nodesOf, new AbortController().signal)
          const isScan = () => {
            for (const node of NODES) {
              const scan = cache.list().filter((each) => nodesOf(each).has(node))
              expect(new Set(index.get(node))).toEqual(new Set(scan))
              expect(index.has(node)).toBe(scan.length > 0)
            }
          }
          isScan()
          for (const step of steps) {
            if ('put' in step) cache.put(step.put)
            else cache.remove(step.remove)
            isScan()
          }
        },
      ),
    )
  })

  it('finds an Instance once that names a node twice', () => {
    const cache = new Instances()
    const index = new NodeIndex(cache, nodesOf, new AbortController().signal)
    const { spec, ...rest } = testInstance(['a'])
    cache.put({ ...rest, spec: { ...spec, deviceUsage: { 'cam-8120fe-0': 'a' } } })
    expect(index.get('a' as NodeName)).toHaveLength(1)
  })

  it('changes no more after the end of its signal', () => {
    const cache = new Instances()
    const stop = new AbortController()
    const index = new NodeIndex(cache, nodesOf, stop.signal)
    stop.abort()
    cache.put(testInstance(['a']))
    expect(index.has('a' as NodeName)).toBe(false)
  })
})
