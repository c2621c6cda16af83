import { beforeEach, describe, expect, it } from 'vitest'
import { type ApiObject, ObjectCache } from './object-cache.js'

interface Thing extends ApiObject {
  readonly value: unknown
}

const thing = (name: string, version: number, value: unknown = version): Thing => ({
  metadata: { namespace: 'n', name, resourceVersion: String(version) },
  value,
})

describe('the cache of a collection', () => {
  let cache: ObjectCache<Thing>
  const values = () =>
    Object.fromEntries(cache.list().map(({ metadata, value }) => [metadata.name, value]))

  beforeEach(() => {
    cache = new ObjectCache({
      parse: (object) => ((object as Thing).value === 'bad' ? undefined : (object as Thing)),
    })
    cache.beginList()
    cache.replace([thing('a', 10), thing('b', 20)], '20')
  })

  it('returns the keys that a list, an event or an answer changed', () => {
    expect(cache.replace([thing('a', 10), thing('c', 30)], '30')).toEqual(['n/c', 'n/b'])
    expect(cache.apply('MODIFIED', thing('a', 31))).toEqual(['n/a'])
    expect(cache.apply('MODIFIED', thing('a', 31))).toEqual([])
    expect(cache.apply('DELETED', thing('c', 32))).toEqual(['n/c'])
    expect(cache.apply('BOOKMARK', thing('a', 33))).toEqual([])
    expect(cache.observe(thing('a', 34))?.changed).toEqual(['n/a'])
    expect(values()).toEqual({ a: 34 })
  })

  it('ignores events that are older than an observed answer', () => {
    cache.observe(thing('a', 50))
    expect(cache.apply('MODIFIED', thing('a', 40))).toEqual([])
    expect(cache.apply('DELETED', thing('a', 45))).toEqual([])
    expect(cache.apply('MODIFIED', thing('a', 60))).toEqual(['n/a'])
  })

  it('ignores an answer that is older than the cached object', () => {
    cache.apply('MODIFIED', thing('a', 100))
    expect(cache.observe(thing('a', 99))).toEqual({ parsed: thing('a', 99), changed: [] })
    expect(values()).toMatchObject({ a: 100 })
  })

  it('does not bring back an object that the watch has deleted after the write', () => {
    cache.apply('DELETED', thing('a', 51))
    expect(cache.observe(thing('a', 50))?.changed).toEqual([])
    expect(values()).toEqual({ b: 20 })
  })

  it('keeps answers to writes that came during a list, and no answers from before', () => {
    cache.observe(thing('early', 60))
    cache.beginList()
    cache.observe(thing('late', 61))
    cache.observe(thing('a', 62))
    // The list was made before all these writes.
    expect(cache.replace([thing('a', 10)], '55')).toEqual(['n/b', 'n/early'])
    expect(values()).toEqual({ a: 62, late: 61 })
  })

  it('believes a list with smaller versions, as after a restored backup', () => {
    expect(cache.replace([thing('a', 5)], '5')).toEqual(['n/a', 'n/b'])
    expect(values()).toEqual({ a: 5 })
  })

  it('shows a write after a backup was restored, also before the list', () => {
    // The watch ended because the server had forgotten version 20.
    cache.beginList()
    expect(cache.observe(thing('c', 7))?.changed).toEqual(['n/c'])
    expect(cache.replace([thing('a', 5)], '6')).toEqual(['n/a', 'n/b'])
    expect(values()).toEqual({ a: 5, c: 7 })
  })

  it('removes an object that cannot be parsed any more', () => {
    expect(cache.apply('MODIFIED', thing('a', 30, 'bad'))).toEqual(['n/a'])
    expect(cache.observe(thing('b', 31, 'bad'))).toBeUndefined()
    expect(values()).toEqual({ b: 20 })
  })
})
