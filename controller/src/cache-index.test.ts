import { ApiClient, type ApiObject, type ObjectKey, objectKey, Reflector } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CacheIndex } from './cache-index.js'

interface Coloured extends ApiObject {
  readonly colour?: string
}

/** A cache that the test fills, and an index of it by colour. */
function indexed() {
  const client = new ApiClient({
    access: { server: new URL('http://127.0.0.1:9'), credentials: async () => ({}) },
    clock: systemClock,
    userAgent: 'test',
  })
  const cache = new Reflector<Coloured>({
    client,
    clock: systemClock,
    path: '/',
    parse: (object) => object as Coloured,
    onError: () => {},
  })
  const stop = new AbortController()
  const index = new CacheIndex<Coloured>(cache, ({ colour }) => colour, stop.signal)
  let version = 0
  const put = (name: string, colour?: string) =>
    cache.observe({
      metadata: { name, namespace: 'plant', uid: name, resourceVersion: String(++version) },
      ...(colour === undefined ? {} : { colour }),
    })
  const names = (colour: string) => index.get(colour).map(({ metadata }) => metadata.name)
  return { cache, index, put, names, stop }
}

describe('an index', () => {
  it('finds objects by their present value, and leaves out objects without a value', () => {
    const { put, names } = indexed()
    put('a', 'red')
    put('b', 'red')
    put('c')
    expect(names('red')).toEqual(['a', 'b'])
    put('a', 'blue')
    put('b')
    expect([names('red'), names('blue')]).toEqual([[], ['a']])
  })

  it('calls back with the value before and the value after a change', () => {
    const { put, index, stop } = indexed()
    const reported: string[] = []
    index.onChange((value) => reported.push(value), stop.signal)
    put('a', 'red')
    put('a', 'red')
    expect(reported).toEqual(['red', 'red'])
    put('a', 'blue')
    expect(reported.splice(0)).toEqual(['red', 'red', 'red', 'blue'])
    put('a')
    put('a')
    expect(reported).toEqual(['blue'])
  })

  it('calls no listener whose signal is aborted', () => {
    const { put, index } = indexed()
    const reported: string[] = []
    const stop = new AbortController()
    index.onChange((value) => reported.push(value), stop.signal)
    index.onChange((value) => reported.push(value), AbortSignal.abort())
    put('a', 'red')
    stop.abort()
    put('a', 'blue')
    expect(reported).toEqual(['red'])
  })

  it('finds the same as a scan of all objects, after any changes', () => {
    const step = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      colour: fc.constantFrom('red', 'blue', undefined),
    })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const { put, cache, names } = indexed()
        for (const { name, colour } of steps) put(name, colour)
        for (const colour of ['red', 'blue']) {
          const all = ['a', 'b', 'c'].map((name): ObjectKey => objectKey('plant', name))
          const found = all
            .flatMap((key) => cache.get(key) ?? [])
            .filter((object) => object.colour === colour)
          expect(names(colour).toSorted()).toEqual(found.map(({ metadata }) => metadata.name))
        }
      }),
    )
  })
})
