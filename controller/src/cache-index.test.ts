import { ApiClient, type ApiObject, Reflector } from '@akrijs/kube'
import { aborted, systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
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
    onWarning: () => undefined,
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
  return { cache, index, put, stop }
}

/** Answers each list with the next objects, and ends the watch after the first list. */
class ListClient extends ApiClient {
  readonly #lists: object[][]

  constructor(...lists: object[][]) {
    const access = { server: new URL('http://x'), credentials: async () => ({}) }
    super({ access, clock: systemClock, userAgent: 'test', onWarning: () => undefined })
    this.#lists = lists
  }

  override async request(): Promise<unknown> {
    return { metadata: { resourceVersion: '9' }, items: this.#lists.shift() }
  }

  override async *lines(_request: unknown, signal: AbortSignal): AsyncGenerator<string> {
    if (this.#lists.length === 0) await aborted(signal)
    else yield '{"type":"ERROR"}'
  }
}

describe('an index', () => {
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

  it('finds no object by its value from before a list that is taken over', async () => {
    const listed = (name: string, version: string, colour: string) => ({
      metadata: { namespace: 'plant', name, resourceVersion: version },
      colour,
    })
    const client = new ListClient(
      [listed('a', '1', 'red'), listed('b', '2', 'red')],
      [listed('a', '3', 'blue'), listed('b', '4', 'blue')],
    )
    const cache = new Reflector<Coloured>({
      client,
      clock: systemClock,
      path: '/',
      parse: (object) => object as Coloured,
      onError: () => {},
    })
    const stop = new AbortController()
    const index = new CacheIndex<Coloured>(cache, ({ colour }) => colour, stop.signal)
    const found: (string | undefined)[] = []
    cache.onChange(() => found.push(...index.get('red').map(({ colour }) => colour)), stop.signal)
    const running = cache.run(stop.signal)
    await vi.waitFor(() => expect(index.get('blue')).toHaveLength(2), 5000)
    expect(new Set(found)).toEqual(new Set(['red']))
    stop.abort()
    await running
  })

  it('finds the same as a scan of all objects, after any changes', () => {
    const colours = fc.array(fc.constantFrom('red', 'blue'), { maxLength: 3 })
    const step = fc.record({ name: fc.constantFrom('a', 'b', 'c'), colours })
    fc.assert(
      fc.property(fc.array(step), fc.array(step), (earlier, steps) => {
        const { put, cache } = indexed()
        for (const { name, colours } of earlier) put(name, colours.join())
        // The cache has objects when a replica begins to lead. A value can stand in one twice.
        const valuesIn = ({ colour = '' }: Coloured) => colour.split(',').filter(Boolean)
        const index = new CacheIndex<Coloured>(cache, valuesIn, new AbortController().signal)
        for (const { name, colours } of steps) put(name, colours.join())
        for (const colour of ['red', 'blue']) {
          const found = cache.list().filter((object) => valuesIn(object).includes(colour))
          expect(new Set(index.get(colour))).toEqual(new Set(found))
          expect(index.get(colour)).toHaveLength(found.length)
          expect(index.has(colour)).toBe(found.length > 0)
        }
      }),
    )
  })
})
