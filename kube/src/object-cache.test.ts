import { beforeEach, describe, expect, it } from 'vitest'
import { type ApiObject, type CachePart, ObjectCache } from './object-cache.js'
import { objectKey } from './objects.js'

interface Thing extends ApiObject {
  readonly value: unknown
}

const thing = (name: string, version: number, value: unknown = version): Thing => ({
  metadata: { namespace: 'n', name, resourceVersion: String(version) },
  value,
})

describe('the cache of a collection', () => {
  let cache: ObjectCache<Thing>
  let part: CachePart<Thing>
  const values = () =>
    Object.fromEntries(cache.list().map(({ metadata, value }) => [metadata.name, value]))

  beforeEach(() => {
    cache = new ObjectCache({
      parse: (object, cached) => {
        const { value } = object as Thing
        return value === 'same' ? cached : value === 'bad' ? undefined : (object as Thing)
      },
    })
    part = cache.part()
    part.beginList(true)
    for (const _ of part.replace([thing('a', 10), thing('b', 20)], '20'));
  })

  it('returns the keys that a list, an event or an answer changed', () => {
    expect([...part.replace([thing('a', 10), thing('c', 30)], '30')].flat()).toEqual(['n/c', 'n/b'])
    expect(part.apply('MODIFIED', thing('a', 31))).toEqual(['n/a'])
    expect(part.apply('MODIFIED', thing('a', 31))).toEqual([])
    expect(part.apply('DELETED', thing('c', 32))).toEqual(['n/c'])
    expect(part.apply('BOOKMARK', thing('a', 33))).toEqual([])
    expect(cache.observe(thing('a', 34))?.changed).toEqual(['n/a'])
    expect(values()).toEqual({ a: 34 })
  })

  it.each([
    ['has', (object: unknown) => object as Thing],
    ['has left out', () => undefined],
  ])('tells of objects that it %s when they are gone, by event or by list', (_, parse) => {
    const gone: string[] = []
    cache = new ObjectCache<Thing>({
      parse,
      deleted: (key) => gone.push(key),
    })
    part = cache.part()
    part.beginList(true)
    const list = (...names: string[]) => {
      for (const _ of part.replace(
        names.map((name) => thing(name, 10)),
        '10',
      ));
    }
    list('a', 'b')
    part.apply('ADDED', thing('c', 11))
    expect(gone).toEqual([])
    part.apply('DELETED', thing('b', 12))
    expect(gone).toEqual(['n/b'])
    list('a')
    expect(gone).toEqual(['n/b', 'n/c'])
    list()
    expect(gone).toEqual(['n/b', 'n/c', 'n/a'])
  })

  it('ignores events that are older than an observed answer', () => {
    cache.observe(thing('a', 50))
    expect(part.apply('MODIFIED', thing('a', 40))).toEqual([])
    expect(part.apply('DELETED', thing('a', 45))).toEqual([])
    expect(part.apply('MODIFIED', thing('a', 46, 'bad'))).toEqual([])
    expect(part.apply('MODIFIED', thing('a', 60))).toEqual(['n/a'])
  })

  it('keeps the object if an event and an answer show the same version', () => {
    part.apply('MODIFIED', thing('a', 31))
    const cached = cache.get(objectKey('n', 'a'))
    expect(cache.observe(thing('a', 31))).toEqual({ parsed: thing('a', 31), changed: [] })
    expect(cache.observe(thing('a', 31))?.parsed).toBe(cached)
  })

  it('ignores an answer that is older than the cached object', () => {
    part.apply('MODIFIED', thing('a', 100))
    expect(cache.observe(thing('a', 99))).toEqual({ parsed: thing('a', 99), changed: [] })
    expect(values()).toMatchObject({ a: 100 })
  })

  it('does not bring back an object that the watch has deleted after the write', () => {
    part.apply('DELETED', thing('a', 51))
    expect(cache.observe(thing('a', 50))?.changed).toEqual([])
    expect(values()).toEqual({ b: 20 })
  })

  it('keeps answers to writes that came during a list, and no answers from before', () => {
    cache.observe(thing('early', 60))
    part.beginList(true)
    cache.observe(thing('late', 61))
    cache.observe(thing('a', 62))
    // The list was made before all these writes.
    expect([...part.replace([thing('a', 10)], '55')].flat()).toEqual(['n/b', 'n/early'])
    expect(values()).toEqual({ a: 62, late: 61 })
  })

  it('believes a list with smaller versions, as after a restored backup', () => {
    expect([...part.replace([thing('a', 5)], '5')].flat()).toEqual(['n/a', 'n/b'])
    expect(values()).toEqual({ a: 5 })
  })

  it('shows a write after a backup was restored, also before the list', () => {
    // The watch ended because the server had forgotten version 20.
    part.beginList(true)
    expect(cache.observe(thing('c', 7))?.changed).toEqual(['n/c'])
    expect([...part.replace([thing('a', 5)], '6')].flat()).toEqual(['n/a', 'n/b'])
    expect(values()).toEqual({ a: 5, c: 7 })
    // The next list must have the write, and not the versions from before the backup.
    expect(part.notOlderThan).toBe('7')
  })

  it('removes an object that cannot be parsed any more', () => {
    expect(part.apply('MODIFIED', thing('a', 30, 'bad'))).toEqual(['n/a'])
    expect(cache.observe(thing('b', 31, 'bad'))).toBeUndefined()
    expect(values()).toEqual({ b: 20 })
  })

  it('keeps the cached object if the parser returns it', () => {
    expect(part.apply('MODIFIED', thing('a', 30, 'same'))).toEqual([])
    expect(values()).toEqual({ a: 10, b: 20 })
  })

  it.each([undefined, null, 'text', {}, { metadata: 5 }, { metadata: { name: 5 } }])(
    'omits %j, which has no name',
    (object) => {
      expect(part.apply('MODIFIED', object)).toEqual([])
      expect(cache.observe(object)).toBeUndefined()
      expect([...part.replace([object], '30')].flat()).toEqual(['n/a', 'n/b'])
    },
  )
})

describe('a cache with two parts', () => {
  const labelled = (name: string, version: number, part: string): Thing =>
    thing(name, version, part)
  let cache: ObjectCache<Thing>
  let left: CachePart<Thing>
  let right: CachePart<Thing>
  const values = () =>
    Object.fromEntries(cache.list().map(({ metadata, value }) => [metadata.name, value]))

  beforeEach(() => {
    cache = new ObjectCache({ parse: (object) => object as Thing })
    left = cache.part(({ value }) => value === 'left')
    right = cache.part(({ value }) => value === 'right')
    left.beginList(false)
    for (const _ of left.replace([labelled('a', 10, 'left')], '20'));
    right.beginList(false)
    for (const _ of right.replace([labelled('b', 15, 'right')], '30'));
  })

  it('removes by the list of a part the objects of that part only', () => {
    cache.observe(labelled('stray', 25, 'other'))
    expect([...left.replace([], '40')].flat()).toEqual(['n/a'])
    expect(values()).toEqual({ b: 'right', stray: 'other' })
  })

  it('keeps objects that move to the other part while a list is read', () => {
    left.apply('ADDED', labelled('c', 36, 'left'))
    left.beginList(false)
    const reading = left.replace([labelled('z', 38, 'left'), labelled('a', 37, 'left')], '40')
    reading.next()
    right.apply('ADDED', labelled('a', 41, 'right'))
    right.apply('ADDED', labelled('c', 39, 'right'))
    for (const _ of reading);
    expect(values()).toEqual({ a: 'right', b: 'right', c: 'right', z: 'left' })
  })

  it('keeps answers to writes that come while a list is read', () => {
    left.beginList(false)
    const reading = left.replace([labelled('z', 38, 'left'), labelled('a', 37, 'left')], '40')
    reading.next()
    cache.observe(labelled('a', 41, 'left'))
    cache.observe(labelled('c', 42, 'left'))
    for (const _ of reading);
    expect(cache.get(objectKey('n', 'a'))?.metadata.resourceVersion).toBe('41')
    expect(values()).toEqual({ a: 'left', b: 'right', c: 'left', z: 'left' })
  })

  it('has a least version of the next list for each part', () => {
    expect([left.notOlderThan, right.notOlderThan]).toEqual(['20', '30'])
    cache.observe(labelled('a', 35, 'left'))
    right.apply('BOOKMARK', { metadata: { resourceVersion: '31' } })
    expect([left.notOlderThan, right.notOlderThan]).toEqual(['35', '31'])
  })

  it('shows a write that only the watch of the other part has passed', () => {
    expect(cache.observe(labelled('c', 25, 'left'))?.changed).toEqual(['n/c'])
    expect(cache.observe(labelled('d', 25, 'right'))?.changed).toEqual([])
  })

  it('keeps an object that moved to the other part, in whatever order the watches say so', () => {
    right.apply('ADDED', labelled('a', 50, 'right'))
    expect(left.apply('DELETED', labelled('a', 50, 'left'))).toEqual([])
    left.apply('ADDED', labelled('a', 60, 'left'))
    left.apply('DELETED', labelled('a', 70, 'left'))
    right.apply('ADDED', labelled('a', 70, 'right'))
    expect(values()).toEqual({ a: 'right', b: 'right' })
  })

  it('forgets an object of no part when it is gone, and no other object', () => {
    cache.observe(labelled('stray', 25, 'other'))
    expect(cache.isStray(objectKey('n', 'stray'))).toBe(true)
    expect(cache.isStray(objectKey('n', 'a'))).toBe(false)
    expect(cache.forget(objectKey('n', 'a'))).toEqual([])
    expect(cache.forget(objectKey('n', 'stray'))).toEqual(['n/stray'])
    expect(values()).toEqual({ a: 'left', b: 'right' })
  })

  it('follows an object of no part once a watch shows it', () => {
    cache.observe(labelled('stray', 25, 'other'))
    expect(left.apply('ADDED', labelled('stray', 40, 'left'))).toEqual(['n/stray'])
    expect(left.apply('DELETED', labelled('stray', 41, 'left'))).toEqual(['n/stray'])
  })
})
