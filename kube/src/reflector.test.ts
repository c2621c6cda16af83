import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { type FakeApiServer, type Handler, refuse } from './testing/fake-api-server.js'
import { ReflectedThings } from './testing/things.js'

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

  it('waits longer after each failure, up to half a minute', async () => {
    api.listAnswers.push(...Array<Handler>(9).fill(refuse(500, 'InternalError')))
    things.begin()
    for (let i = 1; i <= 9; i++) await things.afterFailures(i)
    await things.reflector.synced
    expect(errors.map(([, ms]) => ms)).toEqual([
      500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000,
    ])
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

  it('passes its query to the server', async () => {
    await things.follow({ query: { fieldSelector: 'metadata.name=a' } })
    expect(things.queries.map((query) => query.get('fieldSelector'))).toEqual([
      'metadata.name=a',
      'metadata.name=a',
    ])
  })
})

describe('the cache', () => {
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
})

describe('watching', () => {
  it('follows objects that come, change and go', async () => {
    things.put('a', 1)
    await things.follow()
    things.put('b', 2)
    things.put('a', 3)
    things.remove('b')
    await eventually(() => expect(changes).toEqual(['b', 'a', 'b']))
    expect(things.values()).toEqual({ a: 3 })
  })

  it('continues at the version of a bookmark', async () => {
    await things.follow()
    api.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '777' } } })
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(things.count('watch')).toBe(2))
    expect(things.queries.at(-1)?.get('resourceVersion')).toBe('777')
    expect(things.queries.at(-1)?.get('allowWatchBookmarks')).toBe('true')
    expect(changes).toEqual([])
  })

  it('continues at once, without a list, when a watch ends in time', async () => {
    await things.follow()
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(things.count('watch')).toBe(2))
    things.put('a')
    await things.converged()
    expect(things.count('list')).toBe(1)
    expect(errors).toEqual([])
  })

  it.each([
    [0, '1800'],
    [0.5, '2250'],
    [1, '2700'],
  ])('requests watches of random durations: with %d, of %s s', async (random, seconds) => {
    await things.follow({}, { random: () => random })
    expect(things.queries.at(-1)?.get('timeoutSeconds')).toBe(seconds)
  })

  it('lists again when the server has forgotten the version (410 or an ERROR event)', async () => {
    things.put('a', 1)
    await things.follow()
    api.watchAnswers.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await things.afterFailures(1)
    await eventually(() => expect(things.count('list')).toBe(2))
    await things.watching()

    api.send({
      type: 'ERROR',
      object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' },
    })
    await things.afterFailures(2)
    await eventually(() => expect(things.count('list')).toBe(3))
    expect(errors[1]?.[0]).toContain('too old')
    expect(changes).toEqual([])
  })

  it.each(['{"type":', 'garbage', '5', 'null', '{"kind":"Status"}', ''])(
    'opens another watch after the line %j',
    async (line) => {
      await things.follow()
      api.send(line)
      await things.afterFailures(1)
      await eventually(() => expect(things.count('watch')).toBe(2))
      things.put('a', 1)
      await things.converged()
      expect(things.count('list')).toBe(1)
    },
  )

  it('does not ask in a hot loop if the server ends each watch at once', async () => {
    const endAtOnce: Handler = (_query, response) => response.end()
    api.watchAnswers.push(...Array<Handler>(100).fill(endAtOnce))
    things.begin()
    await things.reflector.synced
    const asked: number[] = []
    for (let minute = 0; minute < 2; minute++) {
      for (let second = 0; second < 60; second++) {
        await clock.advance(1000)
        await vi.waitFor(() => expect(clock.sleeping.length).toBe(1), {
          timeout: 45_000,
          interval: 1,
        })
      }
      asked.push(things.count('watch'))
    }
    // 0.5 + 1 + 2 + 4 + 8 + 16 seconds, then every 30.
    expect(asked[0]).toBeLessThan(10)
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeLessThan(4)
  })

  it('opens a silent watch again, which is not a failure: there may be no changes', async () => {
    await things.follow()
    await clock.advance(60_000)
    const { version } = api.store
    api.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: version } } })
    await eventually(() => expect(things.reflector.lastContact).toBe(1_060_000))
    api.watchAnswers.push((_query, response) => response.flushHeaders())
    await clock.advance(89_999)
    expect(things.count('watch')).toBe(1)
    await clock.advance(1)
    await eventually(() => expect(things.reflector.lastContact).toBe(1_150_000))
    await clock.advance(90_000)
    await eventually(() => expect(things.count('watch')).toBe(3))
    expect(errors).toEqual([])
    expect([things.count('list'), things.count('version')]).toEqual([1, 2])
    things.put('a', 1)
    await things.converged()
  })

  it('gives up a watch that is never answered, and reports it', async () => {
    api.watchAnswers.push(() => {})
    things.begin()
    await eventually(() => expect(things.count('watch')).toBe(1))
    await clock.advance(90_000)
    await things.afterFailures(1)
    expect(errors[0]?.[0]).toContain('nothing came for 90000 ms')
    await eventually(() => expect(things.count('watch')).toBe(2))
  })

  it('continues after connections were cut', async () => {
    await things.follow()
    for (let i = 1; i <= 3; i++) {
      api.cut()
      await things.afterFailures(i)
      await things.watching()
      things.put(`thing-${i}`, i)
      await things.converged()
    }
    expect(things.count('list')).toBe(1)
  })
})

it.each([
  ['lists', 'all servers were away', () => api.cut()],
  ['lists', 'a watch has only been silent', () => api.endWatches()],
  ['streams', 'all servers were away', () => api.cut()],
  ['streams', 'a watch has only been silent', () => api.endWatches()],
])('a restored backup replaces the cache (by %s), with one report: %s', async (by, _, restart) => {
  api.streamsLists = by === 'streams'
  for (const name of ['same', 'changed', 'removed']) things.put(name, 'backup')
  const restore = api.store.backup()
  await things.follow()
  things.put('changed', 'later')
  things.put('later', 'later')
  things.remove('removed')
  await things.converged()
  restore()
  await clock.advance(5000)
  restart()
  await eventually(async () => {
    await clock.advance(30_000)
    expect(things.values()).toEqual({ same: 'backup', changed: 'backup', removed: 'backup' })
  })
  await things.watching()
  things.put('changed', 'after')
  await things.converged()
  expect(errors.filter(([error]) => error.includes('backup'))).toEqual([
    [expect.stringContaining('has version 103, and had version 106 before'), 0],
  ])
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
