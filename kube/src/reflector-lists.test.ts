import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { type FakeApiServer, type Handler, refuse } from './testing/fake-api-server.js'
import { ReflectedThings, type Thing } from './testing/things.js'

let clock: ManualClock
let things: ReflectedThings
let api: FakeApiServer
let changes: readonly string[]
let errors: ReflectedThings['errors']

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  things = await ReflectedThings.open(clock)
  ;({ api, changes, errors } = things)
})

afterEach(() => things.close())

/** The server forgets the version of the present watch. */
async function expire(): Promise<void> {
  const { length } = errors
  api.watchAnswers.push(refuse(410, 'Expired'))
  await clock.advance(5000)
  api.endWatches()
  await things.afterFailures(length + 1)
}

const lists = () => things.queries.filter((query) => !query.has('watch'))
const streams = () => things.queries.filter((query) => query.has('sendInitialEvents'))
const versionsOf = (query: URLSearchParams | undefined) => [
  query?.get('resourceVersion') ?? null,
  query?.get('resourceVersionMatch') ?? null,
  query?.get('limit') ?? null,
]

describe('a list from the memory of the server', () => {
  it('has any version at first, and is in pages if the server has no memory', async () => {
    for (let i = 0; i < 5; i++) things.put(`thing-${i}`, i)
    things.begin({}, { pageSize: 2 })
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
    expect(lists().map(versionsOf)).toEqual([
      ['0', null, '2'],
      [null, null, '2'],
      [null, null, '2'],
    ])
  })

  it('of many objects is read in turns with other work', async () => {
    for (let i = 0; i < 1000; i++) things.put(`thing-${i}`, i)
    let steps = 0
    const now = vi.spyOn(performance, 'now').mockImplementation(() => steps++)
    things.begin()
    let longest = 0
    for (let before = 0; changes.length < 1000; before = changes.length) {
      await new Promise((resolve) => setImmediate(resolve))
      longest = Math.max(longest, changes.length - before)
    }
    now.mockRestore()
    // Ten steps in a turn.
    expect(longest).toBeLessThanOrEqual(11)
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
  })

  it('is later at least as new as what the cache has shown, without a limit', async () => {
    things.put('a', 1)
    await things.follow()
    things.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a']))
    const shown = api.store.version
    await expire()
    await eventually(() => expect(things.count('list')).toBe(2))
    expect(versionsOf(lists()[1])).toEqual([shown, 'NotOlderThan', null])
    await things.watching()
    expect(changes).toEqual(['a'])
  })

  it('is at least as new as the answers to writes', async () => {
    await things.follow()
    api.isSilent = true
    const written = things.put('a', 1)
    things.reflector.observe(written)
    things.put('b', 1)
    await expire()
    await eventually(() => expect(things.count('list')).toBe(2))
    expect(versionsOf(lists()[1])[0]).toBe(written.metadata.resourceVersion)
    await things.converged()
  })

  it('comes from the store in pages if another server is behind', async () => {
    things.put('a', 1)
    await things.follow()
    things.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a']))
    // The watch goes on at another API server, which is behind the first.
    api.listAnswers.push(refuse(504, 'Timeout', 'Too large resource version'))
    await expire()
    await things.afterFailures(2)
    await eventually(() => expect(things.count('list')).toBe(3))
    expect(versionsOf(lists()[2])).toEqual([null, null, '500'])
    await things.watching()
    expect(things.values()).toEqual({ a: 2 })
    // The store was asked once.
    await expire()
    await eventually(() => expect(things.count('list')).toBe(4))
    expect(versionsOf(lists()[3])[1]).toBe('NotOlderThan')
  })

  it('comes from the store if the server has forgotten the version of its own list', async () => {
    things.put('a', 1)
    api.watchAnswers.push(refuse(410, 'Expired'))
    things.begin()
    await things.afterFailures(1)
    await eventually(() => expect(things.count('list')).toBe(2))
    expect(versionsOf(lists()[1])).toEqual([null, null, '500'])
  })

  it('comes from the store if it is too long for the client', async () => {
    const client = api.connect(things.client.server, { maxBytes: 1000 })
    for (let i = 0; i < 10; i++) things.put(`thing-${i}`, 'x'.repeat(200))
    // The memory of the server knows no pages.
    api.listAnswers.push((_request, response) =>
      response.end(
        JSON.stringify({
          metadata: { resourceVersion: api.store.version },
          items: [...api.objects.values()],
        }),
      ),
    )
    things.begin({ client }, { pageSize: 1 })
    await things.afterFailures(1)
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
  })

  it.each([
    ['bytes', { maxBytes: 1000 }, ['500', '63', '8', '1']],
    ['values', { maxValues: 300 }, ['500', '63', '8', '1']],
  ])('has smaller pages if a page has too many %s for the client', async (_what, limits, pages) => {
    const client = api.connect(things.client.server, limits)
    const values = Array.from({ length: 100 }, () => ({}))
    for (let i = 0; i < 10; i++) things.put(`thing-${i}`, values)
    things.begin({ client, listsNewest: true })
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
    expect(errors).toEqual([])
    expect([...new Set(lists().map((query) => query.get('limit')))]).toEqual(pages)
  })

  it.each([false, true])(
    'waits for its end in a reduced form; as a stream: %s',
    async (streams) => {
      api.streamsLists = streams
      for (let i = 0; i < 3; i++) things.put(`thing-${i}`, i)
      const parsed: unknown[] = []
      const reduce = (object: unknown) => ({ ...(object as Thing), value: 'reduced' })
      things.begin({
        reduce,
        parse: (object) => {
          parsed.push(object)
          return object as Thing
        },
      })
      await things.reflector.synced
      expect(things.values()).toEqual({
        'thing-0': 'reduced',
        'thing-1': 'reduced',
        'thing-2': 'reduced',
      })
      await things.watching()
      things.put('thing-3', 3)
      await eventually(() => expect(things.values()['thing-3']).toBe(3))
      expect(parsed).toHaveLength(4)
    },
  )

  it('is not asked for if versions are no numbers', async () => {
    const opaque: Handler = (_request, response) =>
      response.end(JSON.stringify({ metadata: { resourceVersion: 'v-a' }, items: [] }))
    api.listAnswers.push(opaque)
    await things.follow()
    api.listAnswers.push(refuse(500, 'InternalError'))
    await expire()
    await things.afterFailures(2)
    await eventually(() => expect(things.count('list')).toBe(3))
    expect(lists().slice(1).map(versionsOf)).toEqual([
      [null, null, '500'],
      [null, null, '500'],
    ])
  })

  it('is never asked for by a reflector that lists the newest state', async () => {
    api.streamsLists = true
    await things.follow({ listsNewest: true })
    await expire()
    await eventually(() => expect(things.count('list')).toBe(2))
    expect(lists().map(versionsOf)).toEqual([
      [null, null, '500'],
      [null, null, '500'],
    ])
  })
})

describe('a stream of objects', () => {
  const event = (type: string, object: unknown) => `${JSON.stringify({ type, object })}\n`
  const thing = (name: string, version: number, value: unknown = version): Thing => ({
    metadata: { namespace: 'n', name, resourceVersion: String(version) },
    value,
  })
  const end = (version: number) => ({
    metadata: {
      resourceVersion: String(version),
      annotations: { 'k8s.io/initial-events-end': 'true' },
    },
  })
  const answer =
    (...lines: string[]): Handler =>
    (_request, response) => {
      response.write(lines.join(''))
    }

  beforeEach(() => {
    api.streamsLists = true
  })

  it('is list and watch in one request', async () => {
    for (let i = 0; i < 5; i++) things.put(`thing-${i}`, i)
    await things.follow()
    expect(things.values()).toEqual(things.truth())
    things.put('thing-0', 'changed')
    things.remove('thing-1')
    await eventually(() => expect(changes).toEqual(['thing-0', 'thing-1']))
    expect(things.queries).toHaveLength(1)
    expect(streams().map(versionsOf)).toEqual([['0', 'NotOlderThan', null]])
  })

  it('shows nothing before its end, and counts changes before its end', async () => {
    let response: Parameters<Handler>[1] | undefined
    api.watchAnswers.push((_request, opened) => {
      response = opened
      opened.write(event('ADDED', thing('a', 10)) + event('ADDED', thing('b', 11)))
    })
    things.begin()
    await eventually(() => expect(things.reflector.lastContact).toBeDefined())
    expect(things.values()).toEqual({})
    response?.write(
      event('MODIFIED', thing('a', 12)) +
        event('DELETED', thing('b', 13)) +
        event('BOOKMARK', { metadata: { resourceVersion: '14' } }) +
        event('ADDED', thing('c', 15)) +
        event('BOOKMARK', end(16)),
    )
    await things.reflector.synced
    expect(things.values()).toEqual({ a: 12, c: 15 })
    response?.write(event('MODIFIED', thing('c', 17)))
    await eventually(() => expect(things.values()).toEqual({ a: 12, c: 17 }))
  })

  it.each<[string, string, Handler]>([
    ['ten minutes', 'ends', (_request, response) => response.end(event('ADDED', thing('b', 10)))],
    ['ten minutes', 'falls silent', answer(event('ADDED', thing('b', 10)))],
    ['ten minutes', 'is forbidden', refuse(403, 'Forbidden')],
    ['its client', 'is refused with 400', refuse(400, 'BadRequest')],
    ['its client', 'is refused with 422', refuse(422, 'Invalid')],
  ])('is a list, for %s, if it %s before its bookmark', async (pause, _what, incomplete) => {
    things.put('a', 1)
    api.watchAnswers.push(incomplete)
    things.begin()
    await eventually(() => expect(things.reflector.lastContact).toBeDefined())
    await clock.advance(10_000)
    await things.reflector.synced
    expect(things.values()).toEqual({ a: 1 })
    expect(errors).toEqual([])
    await things.watching()
    await clock.advance(500_000)
    await things.watching()
    await expire()
    await things.watching()
    expect([streams().length, things.count('list')]).toEqual([1, 2])
    await clock.advance(100_000)
    await things.watching()
    await expire()
    await things.watching()
    const later = pause === 'ten minutes' ? [2, 2] : [1, 3]
    expect([streams().length, things.count('list')]).toEqual(later)
  })

  it('may be silent as long as each watch after its bookmark', async () => {
    await things.follow()
    await clock.advance(89_999)
    expect(things.queries).toHaveLength(1)
    await clock.advance(1)
    await eventually(() => expect(things.count('watch')).toBe(2))
    expect(things.count('list')).toBe(0)
  })

  it.each([
    ['an event', answer(event('ERROR', { code: 504, message: 'Too large resource version' }))],
    ['a refusal', refuse(504, 'Timeout', 'Too large resource version')],
  ])('of a server that is behind is a list from the store: %s', async (_what, behind) => {
    things.put('a', 1)
    await things.follow()
    things.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a']))
    api.watchAnswers.push(refuse(410, 'Expired'), behind)
    await clock.advance(5000)
    api.endWatches()
    await things.afterFailures(1)
    await things.afterFailures(2)
    await eventually(() => expect(things.count('list')).toBe(1))
    expect(versionsOf(lists()[0])).toEqual([null, null, '500'])
    expect(streams()[1]?.get('resourceVersion')).toBe(api.store.version)
    await things.watching()
    expect(things.values()).toEqual({ a: 2 })
  })
})
