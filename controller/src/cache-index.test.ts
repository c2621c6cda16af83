import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CacheIndex } from './cache-index.js'

type Coloured = ReturnType<typeof coloured>

const coloured = (name: string, colours: readonly string[]) => ({
  metadata: { name, namespace: 'plant', resourceVersion: '1' },
  colours,
})

/** A cache that the test fills. */
class TestCache {
  readonly #objects = new Map<ObjectKey, Coloured>()
  readonly #listeners = new Listeners<[ObjectKey]>()

  get(key: ObjectKey): Coloured | undefined {
    return this.#objects.get(key)
  }

  list(): Coloured[] {
    return [...this.#objects.values()]
  }

  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  put(name: string, ...colours: readonly string[]): void {
    this.putSilently(name, ...colours)
    this.#listeners.tell(objectKey('plant', name))
  }

  putSilently(name: string, ...colours: readonly string[]): void {
    const object = coloured(name, colours)
    this.#objects.set(keyOf(object), object)
  }

  remove(name: string): void {
    const key = objectKey('plant', name)
    this.#objects.delete(key)
    this.#listeners.tell(key)
  }
}

const indexOf = (cache: TestCache) =>
  new CacheIndex<Coloured>(cache, ({ colours }) => colours, new AbortController().signal)

describe('an index', () => {
  it('calls back with the value before and the value after a change', () => {
    const cache = new TestCache()
    const index = indexOf(cache)
    const reported: string[] = []
    index.onChange((value) => reported.push(value), new AbortController().signal)
    cache.put('a', 'red')
    cache.put('a', 'red')
    expect(reported.splice(0)).toEqual(['red', 'red'])
    cache.put('a', 'blue')
    expect(reported.splice(0)).toEqual(['red', 'blue'])
    cache.remove('a')
    cache.put('a')
    expect(reported).toEqual(['blue'])
  })

  it('finds no object by its value from before a change that it has not heard of', () => {
    const cache = new TestCache()
    cache.put('a', 'red')
    const index = indexOf(cache)
    cache.putSilently('a', 'blue')
    expect(index.get('red')).toEqual([])
  })

  it('finds the same as a scan of all objects, after any changes', () => {
    // A value can stand in an object twice.
    const colours = fc.option(fc.array(fc.constantFrom('red', 'blue'), { maxLength: 3 }))
    const step = fc.record({ name: fc.constantFrom('a', 'b', 'c'), colours })
    fc.assert(
      fc.property(fc.array(step), fc.array(step), (earlier, steps) => {
        const cache = new TestCache()
        const take = (all: typeof steps) => {
          for (const { name, colours: now } of all)
            if (now === null) cache.remove(name)
            else cache.put(name, ...now)
        }
        // The cache has objects when a replica begins to lead.
        take(earlier)
        const index = indexOf(cache)
        take(steps)
        for (const colour of ['red', 'blue']) {
          const found = cache.list().filter((object) => object.colours.includes(colour))
          expect(new Set(index.get(colour))).toEqual(new Set(found))
          expect(index.get(colour)).toHaveLength(found.length)
          expect(index.has(colour)).toBe(found.length > 0)
        }
      }),
    )
  })
})
