import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { ApiClient } from './api-client.js'
import { type ApiObject, Reflector } from './reflector.js'

interface Thing extends ApiObject {
  readonly value: unknown
}

interface Event {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Thing
}

type Answer = (request: URLSearchParams, response: http.ServerResponse) => void

/** A collection of an API server, with pages and watches that begin where they are told to. */
class Collection {
  readonly objects = new Map<string, Thing>()
  readonly history: Event[] = []
  readonly watches = new Set<http.ServerResponse>()
  readonly requests: URLSearchParams[] = []
  readonly server = http.createServer((request, response) => this.#answer(request, response))
  /** What is answered instead; taken from the front. */
  readonly lists: Answer[] = []
  readonly watched: Answer[] = []
  #version = 100
  readonly #snapshots: Thing[][] = []

  get version(): string {
    return String(this.#version)
  }

  count(what: 'list' | 'watch'): number {
    return this.requests.filter((query) => query.has('watch') === (what === 'watch')).length
  }

  put(name: string, value: unknown = 0): Thing {
    const type = this.objects.has(name) ? 'MODIFIED' : 'ADDED'
    const object = { metadata: { namespace: 'n', name, resourceVersion: String(++this.#version) }, value }
    this.objects.set(name, object)
    this.#tell({ type, object })
    return object
  }

  remove(name: string): void {
    const known = this.objects.get(name)
    if (known === undefined) return
    this.objects.delete(name)
    this.#tell({
      type: 'DELETED',
      object: { ...known, metadata: { ...known.metadata, resourceVersion: String(++this.#version) } },
    })
  }

  send(line: unknown): void {
    for (const watch of this.watches) watch.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  }

  endWatches(): void {
    for (const watch of this.watches) watch.end()
  }

  #tell(event: Event): void {
    this.history.push(event)
    this.send(event)
  }

  #answer({ url = '' }: http.IncomingMessage, response: http.ServerResponse): void {
    const query = new URL(url, 'http://x').searchParams
    this.requests.push(query)
    if (query.has('watch')) (this.watched.shift() ?? this.#watch)(query, response)
    else (this.lists.shift() ?? this.#list)(query, response)
  }

  readonly #list: Answer = (query, response) => {
    const [snapshot = this.#snapshots.push([...this.objects.values()]) - 1, from = 0] = (query.get('continue') ?? '')
      .split(':')
      .filter((part) => part !== '')
      .map(Number)
    const all = this.#snapshots[snapshot] ?? []
    const end = from + Number(query.get('limit'))
    const next = end < all.length ? `${snapshot}:${end}` : undefined
    response.end(JSON.stringify({ metadata: { resourceVersion: this.version, continue: next }, items: all.slice(from, end) }))
  }

  readonly #watch: Answer = (query, response) => {
    response.flushHeaders()
    const since = Number(query.get('resourceVersion'))
    for (const event of this.history)
      if (Number(event.object.metadata.resourceVersion) > since) response.write(`${JSON.stringify(event)}\n`)
    this.watches.add(response)
    response.on('close', () => this.watches.delete(response))
  }
}

const refuse = (status: number, reason: string): Answer => {
  return (_query, response) => response.writeHead(status).end(JSON.stringify({ reason, message: 'no' }))
}

let api: Collection
let clock: ManualClock
let client: ApiClient
let stop: AbortController
let reflector: Reflector<Thing>
let changes: string[]
let errors: [string, number][]
let running: Promise<void>

beforeEach(async () => {
  api = new Collection()
  api.server.listen(0, '127.0.0.1')
  await once(api.server, 'listening')
  clock = new ManualClock(1_000_000)
  const { port } = api.server.address() as AddressInfo
  const access = { server: new URL(`http://127.0.0.1:${port}`), credentials: async () => ({}) }
  client = new ApiClient({ access, clock, userAgent: 'test' })
  stop = new AbortController()
  changes = []
  errors = []
  running = Promise.resolve()
})

afterEach(async () => {
  stop.abort()
  await running
  client.close()
  api.server.closeAllConnections()
  await new Promise((resolve) => api.server.close(resolve))
})

function begin(options: Partial<ConstructorParameters<typeof Reflector<Thing>>[0]> = {}): Reflector<Thing> {
  reflector = new Reflector<Thing>({
    client,
    clock,
    path: '/things',
    random: () => 1,
    parse: (object) => object as Thing,
    onError: (error, retryInMs) => errors.push([String(error), retryInMs]),
    ...options,
  })
  reflector.onChange((changed) => changes.push(changed.slice(2)), stop.signal)
  running = reflector.run(stop.signal)
  return reflector
}

/** Begun, and following. */
async function follow(options: Partial<ConstructorParameters<typeof Reflector<Thing>>[0]> = {}): Promise<void> {
  begin(options)
  await reflector.synced
  await watching()
  changes.length = 0
}

const watching = () => vi.waitFor(() => expect(api.watches.size).toBe(1), { interval: 2 })
const values = () => Object.fromEntries(reflector.list().map(({ metadata, value }) => [metadata.name, value]))
const truth = () => Object.fromEntries([...api.objects].map(([name, { value }]) => [name, value]))
const converged = () => vi.waitFor(() => expect(values()).toEqual(truth()), { interval: 2 })

/** Waits until a failure was told, and lets the time pass until the next attempt. */
async function afterFailures(count: number): Promise<void> {
  await vi.waitFor(() => expect(errors).toHaveLength(count), { interval: 2 })
  await clock.advance(errors.at(-1)?.[1] ?? 0)
}

describe('listing', () => {
  it('reads a collection in pages and knows all of it when it is synced', async () => {
    for (let i = 0; i < 20; i++) api.put(`thing-${i}`, i)
    begin({ pageSize: 3 })
    await reflector.synced
    expect(values()).toEqual(truth())
    expect(api.count('list')).toBe(7)
    expect(api.requests.slice(0, 7).map((query) => query.get('limit'))).toEqual(Array(7).fill('3'))
  })

  it('begins again when the list has become too old to go on', async () => {
    for (let i = 0; i < 5; i++) api.put(`thing-${i}`, i)
    const first: Answer = (_query, response) =>
      response.end(JSON.stringify({ metadata: { resourceVersion: '1', continue: 'old' }, items: [] }))
    api.lists.push(first, refuse(410, 'Expired'))
    begin({ pageSize: 2 })
    await afterFailures(1)
    await reflector.synced
    expect(values()).toEqual(truth())
    expect(errors[0]?.[0]).toContain('changed too much')
  })

  it.each([
    ['HTML', '<html></html>'],
    ['another object', '{"kind":"Pod"}'],
    ['a list without a version', '{"items":[],"metadata":{}}'],
    ['null', 'null'],
    ['nothing', ''],
  ])('is not synced by %s', async (_what, text) => {
    api.put('a')
    api.lists.push((_query, response) => response.end(text))
    begin()
    await eventually(() => expect(errors).toHaveLength(1))
    expect(reflector.list()).toEqual([])
    await clock.advance(500)
    await reflector.synced
    expect(values()).toEqual({ a: 0 })
  })

  it('leaves out what has no name', async () => {
    api.lists.push((_query, response) =>
      response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: [null, 1, {}, { metadata: { name: 5 } }] })),
    )
    begin()
    await reflector.synced
    expect(reflector.list()).toEqual([])
  })

  it('waits longer after each failure, up to half a minute', async () => {
    api.lists.push(...Array<Answer>(9).fill(refuse(500, 'InternalError')))
    begin()
    for (let i = 1; i <= 9; i++) await afterFailures(i)
    await reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
  })

  it('does not take a list that failed after a long time for one that worked', async () => {
    const held: http.ServerResponse[] = []
    api.lists.push(...Array<Answer>(3).fill((_query, response) => held.push(response)))
    begin()
    for (let i = 1; i <= 3; i++) {
      await vi.waitFor(() => expect(held).toHaveLength(i), { interval: 2 })
      await clock.advance(20_000)
      refuse(500, 'InternalError')(new URLSearchParams(), held[i - 1] ?? expect.fail())
      await afterFailures(i)
    }
    expect(errors.map(([, ms]) => ms)).toEqual([500, 1000, 2000])
  })

  it('knows when the server was last heard of', async () => {
    begin()
    expect(reflector.lastContact).toBeUndefined()
    await reflector.synced
    expect(reflector.lastContact).toBe(1_000_000)
  })

  it('asks for what it was made for only', async () => {
    await follow({ query: { fieldSelector: 'metadata.name=a' } })
    expect(api.requests.map((query) => query.get('fieldSelector'))).toEqual(['metadata.name=a', 'metadata.name=a'])
  })
})

describe('watching', () => {
  it('follows what comes, changes and goes', async () => {
    api.put('a', 1)
    await follow()
    api.put('b', 2)
    api.put('a', 3)
    api.remove('b')
    await eventually(() => expect(changes).toEqual(['b', 'a', 'b']))
    expect(values()).toEqual({ a: 3 })
  })

  it('goes on after a bookmark where the bookmark says', async () => {
    await follow()
    api.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '777' } } })
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(api.count('watch')).toBe(2))
    expect(api.requests.at(-1)?.get('resourceVersion')).toBe('777')
    expect(api.requests.at(-1)?.get('allowWatchBookmarks')).toBe('true')
    expect(changes).toEqual([])
  })

  it('goes on at once, without a list and without a failure, when a watch ends in time', async () => {
    await follow()
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(api.count('watch')).toBe(2))
    api.put('a')
    await converged()
    expect(api.count('list')).toBe(1)
    expect(errors).toEqual([])
  })

  it('asks for watches that end at different times', async () => {
    await follow({ random: () => 0.5, watchSeconds: 200 })
    expect(api.requests.at(-1)?.get('timeoutSeconds')).toBe('250')
  })

  it('lists again when the server has forgotten what came since, by 410 or in the stream', async () => {
    api.put('a', 1)
    await follow()
    api.watched.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await afterFailures(1)
    await eventually(() => expect(api.count('list')).toBe(2))
    await watching()

    api.send({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } })
    await afterFailures(2)
    await eventually(() => expect(api.count('list')).toBe(3))
    expect(errors[1]?.[0]).toContain('too old')
    expect(changes).toEqual([])
  })

  it('tells of what came, changed and went while it was not connected, and of nothing else', async () => {
    for (const name of ['same', 'changed', 'gone']) api.put(name, 1)
    await follow()
    api.watched.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(errors).toHaveLength(1))
    api.put('changed', 2)
    api.remove('gone')
    api.put('new', 1)
    await clock.advance(500)
    await converged()
    expect(changes.toSorted()).toEqual(['changed', 'gone', 'new'])
  })

  it.each(['{"type":', 'garbage', '5', 'null', '{"kind":"Status"}', ''])(
    'begins another watch after the line %j',
    async (line) => {
      await follow()
      api.send(line)
      await afterFailures(1)
      await eventually(() => expect(api.count('watch')).toBe(2))
      api.put('a', 1)
      await converged()
      expect(api.count('list')).toBe(1)
    },
  )

  it('is not upset by events without an object', async () => {
    await follow()
    for (const object of [undefined, null, 5, {}, { metadata: 5 }, { metadata: { name: 'x', namespace: 7 } }])
      api.send({ type: 'MODIFIED', object })
    api.put('a', 1)
    await converged()
    expect(errors).toEqual([])
  })

  it('does not ask in a hot loop where the server ends each watch at once', async () => {
    const endAtOnce: Answer = (_query, response) => response.end()
    api.watched.push(...Array<Answer>(100).fill(endAtOnce))
    begin()
    await reflector.synced
    const asked: number[] = []
    for (let minute = 0; minute < 2; minute++) {
      for (let second = 0; second < 60; second++) {
        await clock.advance(1000)
        await vi.waitFor(() => expect(clock.sleeping.length).toBe(1), { interval: 1 })
      }
      asked.push(api.count('watch'))
    }
    // 0.5 + 1 + 2 + 4 + 8 + 16 seconds, then every 30.
    expect(asked[0]).toBeLessThan(10)
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeLessThan(4)
  })

  it('opens a watch anew on which nothing came for the time of silence, and takes it for no failure: it may be that nothing happens', async () => {
    await follow({ silenceMs: 90_000 })
    await clock.advance(60_000)
    api.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '200' } } })
    await eventually(() => expect(reflector.lastContact).toBe(1_060_000))
    api.watched.push((_query, response) => response.flushHeaders())
    await clock.advance(89_999)
    expect(api.count('watch')).toBe(1)
    await clock.advance(1)
    await eventually(() => expect(reflector.lastContact).toBe(1_150_000))
    await clock.advance(90_000)
    await eventually(() => expect(api.count('watch')).toBe(3))
    expect(errors).toEqual([])
    expect(api.count('list')).toBe(1)
    api.put('a', 1)
    await converged()
  })

  it('gives a watch up that is never answered, and says so', async () => {
    api.watched.push(() => {})
    begin({ silenceMs: 90_000 })
    await eventually(() => expect(api.count('watch')).toBe(1))
    await clock.advance(90_000)
    await afterFailures(1)
    expect(errors[0]?.[0]).toContain('nothing came for 90000 ms')
    await eventually(() => expect(api.count('watch')).toBe(2))
  })

  it('goes on after connections were cut', async () => {
    await follow()
    for (let i = 1; i <= 3; i++) {
      api.server.closeAllConnections()
      await afterFailures(i)
      await watching()
      api.put(`thing-${i}`, i)
      await converged()
    }
    expect(api.count('list')).toBe(1)
  })
})

describe('the cache', () => {
  it('leaves out what makes no sense, and takes away what makes none any more', async () => {
    const parse = (object: unknown) => ((object as Thing).value === 'bad' ? undefined : (object as Thing))
    api.put('a', 1)
    api.put('b', 'bad')
    await follow({ parse })
    expect(values()).toEqual({ a: 1 })
    api.put('a', 'bad')
    api.put('b', 2)
    await eventually(() => expect(values()).toEqual({ b: 2 }))
    expect(changes).toEqual(['a', 'b'])
  })

  it('keeps what it has where that is what the parser says', async () => {
    const parse = (object: unknown, known: Thing | undefined) => ((object as Thing).value === 'bad' ? known : (object as Thing))
    api.put('a', 1)
    await follow({ parse })
    api.put('a', 'bad')
    api.put('b', 2)
    await eventually(() => expect(changes).toEqual(['b']))
    expect(values()).toEqual({ a: 1, b: 2 })
  })

  it('hands over what a listener throws to who runs it', async () => {
    api.put('a', 1)
    await follow()
    reflector.onChange(() => {
      throw new RangeError('our mistake')
    }, stop.signal)
    const ended = expect(running).rejects.toThrow('our mistake')
    running = Promise.resolve()
    api.put('a', 2)
    await ended
    await eventually(() => expect(api.watches.size).toBe(0))
  })

  it('hands over what a listener throws at the first list as well', async () => {
    api.put('a', 1)
    reflector = new Reflector<Thing>({ client, clock, path: '/things', parse: (object) => object as Thing, onError: () => {} })
    reflector.onChange(() => {
      throw new RangeError('our mistake')
    }, stop.signal)
    await expect(reflector.run(stop.signal)).rejects.toThrow('our mistake')
  })

  it('tells nobody whose signal is aborted', async () => {
    await follow()
    const own = new AbortController()
    const told: string[] = []
    reflector.onChange((changed) => told.push(changed), own.signal)
    api.put('a', 1)
    await eventually(() => expect(changes).toEqual(['a']))
    own.abort()
    reflector.onChange((changed) => told.push(changed), own.signal)
    api.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a', 'a']))
    expect(told).toEqual(['n/a'])
  })
})

describe('what a write answered', () => {
  const thing = (name: string, resourceVersion: string, value: unknown): Thing => ({
    metadata: { namespace: 'n', name, resourceVersion },
    value,
  })
  const event = (type: string, object: Thing) => api.send({ type, object })
  const seen = async (names: string[]) => {
    event('MODIFIED', thing('last', '9999', 0))
    await eventually(() => expect(changes).toEqual([...names, 'last']))
  }

  it('counts at once, and what the watch tells of the time before does not', async () => {
    api.put('a', 'old')
    await follow()
    reflector.observe(thing('a', '500', 'written'))
    expect(values()).toEqual({ a: 'written' })
    event('MODIFIED', thing('a', '300', 'before'))
    event('DELETED', thing('a', '400', 'before'))
    event('MODIFIED', thing('a', '500', 'written'))
    await seen(['a'])
    expect(values()).toMatchObject({ a: 'written' })
  })

  it('is not removed by something older that makes no sense', async () => {
    await follow({ parse: (object) => ((object as Thing).value === 'bad' ? undefined : (object as Thing)) })
    reflector.observe(thing('a', '500', 'written'))
    event('MODIFIED', thing('a', '300', 'bad'))
    await seen(['a'])
    expect(values()).toMatchObject({ a: 'written' })
  })

  it('gives way to what is newer', async () => {
    await follow()
    reflector.observe(thing('a', '500', 'written'))
    reflector.observe(thing('a', '400', 'an answer that came late'))
    event('MODIFIED', thing('a', '600', 'newer'))
    await eventually(() => expect(values()).toEqual({ a: 'newer' }))
    event('DELETED', thing('a', '700', 'newer'))
    await eventually(() => expect(values()).toEqual({}))
  })

  it('compares versions as numbers', async () => {
    await follow()
    reflector.observe(thing('a', '1000', 'written'))
    reflector.observe(thing('a', '999', 'older'))
    expect(values()).toEqual({ a: 'written' })
  })

  it('does not bring back what the watch has already told to be gone', async () => {
    await follow()
    const written = api.put('a', 1)
    api.remove('a')
    await eventually(() => expect(changes).toEqual(['a', 'a']))
    expect(reflector.observe(written)).toBe(written)
    expect(values()).toEqual({})
  })

  it('is not undone by a list that was made before', async () => {
    await follow()
    api.watched.push(refuse(410, 'Expired'))
    api.lists.push((_query, response) => {
      const version = api.version
      const written = api.put('a', 'written')
      reflector.observe(written)
      response.end(JSON.stringify({ metadata: { resourceVersion: version }, items: [] }))
    })
    await clock.advance(5000)
    api.endWatches()
    await afterFailures(1)
    await watching()
    expect(values()).toEqual({ a: 'written' })
    expect(changes).toEqual(['a'])
  })

  it('is forgotten where a list made later does not have it, also after a backup was restored', async () => {
    await follow()
    reflector.observe(thing('a', '5000', 'lost by the backup'))
    api.lists.push((_query, response) =>
      response.end(JSON.stringify({ metadata: { resourceVersion: '50' }, items: [thing('b', '40', 'there')] })),
    )
    api.watched.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await afterFailures(1)
    await eventually(() => expect(values()).toEqual({ b: 'there' }))
  })

  it('is nothing where it makes no sense', async () => {
    await follow({ parse: () => undefined })
    expect(reflector.observe(thing('a', '500', 0))).toBeUndefined()
    expect(reflector.observe(undefined)).toBeUndefined()
    expect(reflector.observe('text')).toBeUndefined()
    expect(reflector.list()).toEqual([])
  })
})

describe('the end', () => {
  it.each([
    ['it lists', () => api.lists.push(() => {}), () => expect(api.count('list')).toBe(1)],
    ['it watches', () => {}, () => expect(api.watches.size).toBe(1)],
    ['it waits to try again', () => api.lists.push(refuse(500, 'x')), () => expect(errors).toHaveLength(1)],
  ])('comes at once while %s, and leaves nothing open', async (_what, before, until) => {
    before()
    begin()
    await vi.waitFor(until, { interval: 2 })
    stop.abort()
    await running
    expect(clock.sleeping).toEqual([])
    const connections = () =>
      new Promise<number>((resolve, reject) =>
        api.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      )
    client.close()
    await eventually(async () => expect(await connections()).toBe(0))
  })

  it('comes before anything was asked where the signal is aborted already', async () => {
    stop.abort()
    begin()
    await running
    expect(api.requests).toEqual([])
  })
})
