import type http from 'node:http'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { Reflector } from './reflector.js'
import { type Answer, type Collection, refuse, type Thing } from './testing/collection.js'
import { ReflectedThings } from './testing/things.js'

let clock: ManualClock
let things: ReflectedThings
let api: Collection
let changes: readonly string[]
let errors: ReflectedThings['errors']

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  things = await ReflectedThings.open(clock)
  ;({ api, changes, errors } = things)
})

afterEach(() => things.close())

describe('listing', () => {
  it('reads a collection in pages and knows all of it when it is synced', async () => {
    for (let i = 0; i < 20; i++) api.put(`thing-${i}`, i)
    things.begin({ pageSize: 3 })
    await things.reflector.synced
    expect(things.values()).toEqual(things.truth())
    expect(api.count('list')).toBe(7)
    expect(api.requests.slice(0, 7).map((query) => query.get('limit'))).toEqual(Array(7).fill('3'))
  })

  it('begins again when the list has become too old to go on', async () => {
    for (let i = 0; i < 5; i++) api.put(`thing-${i}`, i)
    const first: Answer = (_query, response) =>
      response.end(
        JSON.stringify({ metadata: { resourceVersion: '1', continue: 'old' }, items: [] }),
      )
    api.lists.push(first, refuse(410, 'Expired'))
    things.begin({ pageSize: 2 })
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
    api.put('a')
    api.lists.push((_query, response) => response.end(text))
    things.begin()
    await eventually(() => expect(errors).toHaveLength(1))
    expect(things.reflector.list()).toEqual([])
    await clock.advance(500)
    await things.reflector.synced
    expect(things.values()).toEqual({ a: 0 })
  })

  it('leaves out what has no name', async () => {
    api.lists.push((_query, response) =>
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
    api.lists.push(...Array<Answer>(9).fill(refuse(500, 'InternalError')))
    things.begin()
    for (let i = 1; i <= 9; i++) await things.afterFailures(i)
    await things.reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([
      500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000,
    ])
  })

  it('tries again after between half and all of that time, so that not all who lost a server come back to it at once', async () => {
    const rolls = [0, 0.5, 0]
    api.lists.push(...Array<Answer>(3).fill(refuse(500, 'InternalError')))
    things.begin({ random: () => rolls.shift() ?? 1 })
    for (let i = 1; i <= 3; i++) await things.afterFailures(i)
    await things.reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([250, 750, 1000])
  })

  it('does not take a list that failed after a long time for one that worked', async () => {
    const held: http.ServerResponse[] = []
    api.lists.push(...Array<Answer>(3).fill((_query, response) => held.push(response)))
    things.begin()
    for (let i = 1; i <= 3; i++) {
      await eventually(() => expect(held).toHaveLength(i))
      await clock.advance(20_000)
      refuse(500, 'InternalError')(new URLSearchParams(), held[i - 1] ?? expect.fail())
      await things.afterFailures(i)
    }
    expect(errors.map(([, ms]) => ms)).toEqual([500, 1000, 2000])
  })

  it('knows when the server was last heard of', async () => {
    things.begin()
    expect(things.reflector.lastContact).toBeUndefined()
    await things.reflector.synced
    expect(things.reflector.lastContact).toBe(1_000_000)
  })

  it('asks for what it was made for only', async () => {
    await things.follow({ query: { fieldSelector: 'metadata.name=a' } })
    expect(api.requests.map((query) => query.get('fieldSelector'))).toEqual([
      'metadata.name=a',
      'metadata.name=a',
    ])
  })
})

describe('the cache', () => {
  it('leaves out what makes no sense, and takes away what makes none any more', async () => {
    const parse = (object: unknown) =>
      (object as Thing).value === 'bad' ? undefined : (object as Thing)
    api.put('a', 1)
    api.put('b', 'bad')
    await things.follow({ parse })
    expect(things.values()).toEqual({ a: 1 })
    api.put('a', 'bad')
    api.put('b', 2)
    await eventually(() => expect(things.values()).toEqual({ b: 2 }))
    expect(changes).toEqual(['a', 'b'])
  })

  it('keeps what it has where that is what the parser says', async () => {
    const parse = (object: unknown, known: Thing | undefined) =>
      (object as Thing).value === 'bad' ? known : (object as Thing)
    api.put('a', 1)
    await things.follow({ parse })
    api.put('a', 'bad')
    api.put('b', 2)
    await eventually(() => expect(changes).toEqual(['b']))
    expect(things.values()).toEqual({ a: 1, b: 2 })
  })

  it('hands over what a listener throws to who runs it', async () => {
    api.put('a', 1)
    await things.follow()
    things.reflector.onChange(() => {
      throw new RangeError('our mistake')
    }, things.stop.signal)
    const ended = expect(things.running).rejects.toThrow('our mistake')
    things.running = Promise.resolve()
    api.put('a', 2)
    await ended
    await eventually(() => expect(api.watches.size).toBe(0))
  })

  it('hands over what a listener throws at the first list as well', async () => {
    api.put('a', 1)
    const reflector = new Reflector<Thing>({
      client: things.client,
      clock,
      path: '/things',
      parse: (object) => object as Thing,
      onError: () => {},
    })
    reflector.onChange(() => {
      throw new RangeError('our mistake')
    }, things.stop.signal)
    await expect(reflector.run(things.stop.signal)).rejects.toThrow('our mistake')
  })

  it('tells nobody whose signal is aborted', async () => {
    await things.follow()
    const own = new AbortController()
    const told: string[] = []
    things.reflector.onChange((changed) => told.push(changed), own.signal)
    api.put('a', 1)
    await eventually(() => expect(changes).toEqual(['a']))
    own.abort()
    things.reflector.onChange((changed) => told.push(changed), own.signal)
    api.put('a', 2)
    await eventually(() => expect(changes).toEqual(['a', 'a']))
    expect(told).toEqual(['n/a'])
  })
})

describe('the end', () => {
  it.each([
    ['it lists', () => api.lists.push(() => {}), () => expect(api.count('list')).toBe(1)],
    ['it watches', () => {}, () => expect(api.watches.size).toBe(1)],
    [
      'it waits to try again',
      () => api.lists.push(refuse(500, 'x')),
      () => expect(errors).toHaveLength(1),
    ],
  ])('comes at once while %s, and leaves nothing open', async (_what, before, until) => {
    before()
    things.begin()
    await eventually(until)
    things.stop.abort()
    await things.running
    expect(clock.sleeping).toEqual([])
    const connections = () =>
      new Promise<number>((resolve, reject) =>
        api.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      )
    things.client.close()
    await eventually(async () => expect(await connections()).toBe(0))
  })

  it('comes before anything was asked where the signal is aborted already', async () => {
    things.stop.abort()
    things.begin()
    await things.running
    expect(api.requests).toEqual([])
  })
})
