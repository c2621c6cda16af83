import { ApiClient, type ApiObject, type ObjectKey, objectKey, Reflector } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ObjectIndex } from './object-index.js'

interface Coloured extends ApiObject {
  readonly colour?: string
}

/** A cache that is told by hand, and what is found in it by colour. */
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
  const index = new ObjectIndex<Coloured>(cache, ({ colour }) => colour, stop.signal)
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
  it('finds objects by what they have now, and none that has nothing', () => {
    const { put, names } = indexed()
    put('a', 'red')
    put('b', 'red')
    put('c')
    expect(names('red')).toEqual(['a', 'b'])
    put('a', 'blue')
    put('b')
    expect([names('red'), names('blue')]).toEqual([[], ['a']])
  })

  it('tells of what an object was among, and of what it is among now', () => {
    const { put, index, stop } = indexed()
    const told: string[] = []
    index.onChange((entry) => told.push(entry), stop.signal)
    put('a', 'red')
    put('a', 'red')
    expect(told).toEqual(['red', 'red'])
    put('a', 'blue')
    expect(told.splice(0)).toEqual(['red', 'red', 'red', 'blue'])
    put('a')
    put('a')
    expect(told).toEqual(['blue'])
  })

  it('tells nothing to who has had enough, or has had so from the beginning', () => {
    const { put, index } = indexed()
    const told: string[] = []
    const enough = new AbortController()
    index.onChange((entry) => told.push(entry), enough.signal)
    index.onChange((entry) => told.push(entry), AbortSignal.abort())
    put('a', 'red')
    enough.abort()
    put('a', 'blue')
    expect(told).toEqual(['red'])
  })

  it('is what a look at all objects would find, whatever they have been', () => {
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
