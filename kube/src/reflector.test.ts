import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { Reflector } from './reflector.js'
import { type FakeApiServer, type Handler, refuse } from './testing/fake-api-server.js'
import { ReflectedThings, THINGS, type Thing } from './testing/things.js'

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

describe('listing', () => {
  it('reads a collection in pages, and has all objects when it is synced', async () => {
    for (let i = 0; i < 20; i++) things.put(`thing-${i}`, i)
    things.begin({}, { pageSize: 3 })
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
    expect(things.count('list')).toBe(7)
    expect(things.queries.slice(0, 7).map((query) => query.get('limit'))).toEqual(
      Array(7).fill('3'),
    )
  })

  it('tells for how long the server is silent, also before its first answer', async () => {
    api.listAnswers.push(refuse(503, 'Unavailable'))
    things.begin()
    await eventually(() => expect(errors).toHaveLength(1))
    await clock.advance(499)
    expect(things.reflector.silentForMs).toBe(499)
    await clock.advance(1)
    await things.reflector.synced
    await things.watching()
    expect(things.reflector.silentForMs).toBe(0)
    await clock.advance(7)
    expect(things.reflector.silentForMs).toBe(7)
  })

  it('begins again when the list has expired between pages', async () => {
    for (let i = 0; i < 5; i++) things.put(`thing-${i}`, i)
    const first: Handler = (_query, response) =>
      response.end(
        JSON.stringify({ metadata: { resourceVersion: '1', continue: 'old' }, items: [] }),
      )
    api.listAnswers.push(first, refuse(410, 'Expired'))
    things.begin({}, { pageSize: 2 })
    await things.afterFailures(1)
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
    expect(errors[0]?.[0]).toContain('changed too much')
  })

  it.each([
    ['HTML', '<html></html>'],
    ['another object', '{"kind":"Pod"}'],
    ['a list without a version', '{"items":[],"metadata":{}}'],
    ['null', 'null'],
    ['nothing', ''],
  ])('is not synced by %s', async (_what, text) => {
    things.put('a')
    api.listAnswers.push((_query, response) => response.end(text))
    things.begin()
    await eventually(() => expect(errors).toHaveLength(1))
    expect(things.reflector.list()).toEqual([])
    await clock.advance(500)
    await things.reflector.synced
    expect(things.values()).toEqual({ a: 0 })
  })

  it('omits objects without a name', async () => {
    api.listAnswers.push((_query, response) =>
      response.end(
        JSON.stringify({
          metadata: { resourceVersion: '1' },
          items: [null, 1, {}, { metadata: { name: 5 } }],
        }),
      ),
    )
    things.begin()
    await things.reflector.synced
    expect(things.reflector.list()).toEqual([])
  })

  it('waits longer after each failure, up to half a minute', async () => {
    api.listAnswers.push(...Array<Handler>(9).fill(refuse(500, 'InternalError')))
    things.begin()
    for (let i = 1; i <= 9; i++) await things.afterFailures(i)
    await things.reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([
      500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000,
    ])
  })

  it('retries after half to all of that time: programs do not return together', async () => {
    // The first roll is the duration of a watch that the server refuses.
    const rolls = [0, 1, 0.5, 1]
    api.listAnswers.push(...Array<Handler>(3).fill(refuse(500, 'InternalError')))
    things.begin({}, { random: () => rolls.shift() ?? 0 })
    for (let i = 1; i <= 3; i++) await things.afterFailures(i)
    await things.reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([250, 750, 1000])
  })

  it('does not count a list that failed after a long time as a success', async () => {
    const held: (() => void)[] = []
    api.listAnswers.push(
      ...Array<Handler>(3).fill((...exchange) =>
        held.push(() => refuse(500, 'InternalError')(...exchange)),
      ),
    )
    things.begin()
    for (let i = 1; i <= 3; i++) {
      await eventually(() => expect(held).toHaveLength(i))
      await clock.advance(20_000)
      held[i - 1]?.()
      await things.afterFailures(i)
    }
    expect(errors.map(([, ms]) => ms)).toEqual([500, 1000, 2000])
  })

  it('has the time of the last contact with the server', async () => {
    things.begin()
    expect(things.reflector.lastContact).toBeUndefined()
    await things.reflector.synced
    expect(things.reflector.lastContact).toBe(1_000_000)
  })

  it('passes its query to the server', async () => {
    await things.follow({ query: { fieldSelector: 'metadata.name=a' } })
    expect(things.queries.map((query) => query.get('fieldSelector'))).toEqual([
      'metadata.name=a',
      'metadata.name=a',
    ])
  })
})

describe('the cache', () => {
  it('omits objects that cannot be parsed, and removes those that no longer can', async () => {
    const parse = (object: unknown) =>
      (object as Thing).value === 'bad' ? undefined : (object as Thing)
    things.put('a', 1)
    things.put('b', 'bad')
    await things.follow({ parse })
    expect(things.values()).toEqual({ a: 1 })
    things.put('a', 'bad')
    things.put('b', 2)
    await eventually(() => expect(things.values()).toEqual({ b: 2 }))
    expect(changes).toEqual(['a', 'b'])
  })

  it('keeps the cached object if the parser returns it', async () => {
    const parse = (object: unknown, known: Thing | undefined) =>
      (object as Thing).value === 'bad' ? known : (object as Thing)
    things.put('a', 1)
    await things.follow({ parse })
    things.put('a', 'bad')
    things.put('b', 2)
    await eventually(() => expect(changes).toEqual(['b']))
    expect(things.values()).toEqual({ a: 1, b: 2 })
  })

  it('rejects with the error of a listener', async () => {
    things.put('a', 1)
    await things.follow()
    things.reflector.onChange(() => {
      throw new RangeError('bug')
    }, things.stop.signal)
    const ended = expect(things.running).rejects.toThrow('bug')
    things.running = Promise.resolve()
    things.put('a', 2)
    await ended
    await eventually(() => expect(api.watches.size).toBe(0))
  })

  it('rejects with the error of a listener at the first list', async () => {
    things.put('a', 1)
    const reflector = new Reflector<Thing>({
      client: things.client,
      clock,
      path: THINGS,
      parse: (object) => object as Thing,
      onError: () => {},
    })
    reflector.onChange(() => {
      throw new RangeError('bug')
    }, things.stop.signal)
    await expect(reflector.run(things.stop.signal)).rejects.toThrow('bug')
  })

  it('calls no listener whose signal is aborted', async () => {
    await things.follow()
    const ended = new AbortController()
    const heard: string[] = []
    things.reflector.onChange((changed) => heard.push(changed), ended.signal)
    things.put('a', 1)
    await eventually(() => expect(changes).toEqual(['a']))
    ended.abort()
    things.reflector.onChange((changed) => heard.push(changed), ended.signal)
    things.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a', 'a']))
    expect(heard).toEqual(['n/a'])
  })
})

describe('the end', () => {
  it.each([
    ['it lists', () => api.listAnswers.push(() => {}), () => expect(things.count('list')).toBe(1)],
    ['it watches', () => {}, () => expect(api.watches.size).toBe(1)],
    [
      'it waits to try again',
      () => api.listAnswers.push(refuse(500, 'x')),
      () => expect(errors).toHaveLength(1),
    ],
  ])('comes at once while %s, and leaves nothing open', async (_what, before, until) => {
    before()
    things.begin()
    await eventually(until)
    things.stop.abort()
    await things.running
    expect(clock.sleeping).toEqual([])
    things.client.close()
    await eventually(() => expect(api.sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('comes before any request if the signal is already aborted', async () => {
    things.stop.abort()
    things.begin()
    await things.running
    expect(api.requests).toEqual([])
  })
})
