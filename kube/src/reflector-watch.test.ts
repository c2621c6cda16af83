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

  it('reports the changes while it was not connected, and no others', async () => {
    for (const name of ['same', 'changed', 'gone']) things.put(name, 1)
    await things.follow()
    api.watchAnswers.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await eventually(() => expect(errors).toHaveLength(1))
    things.put('changed', 2)
    things.remove('gone')
    things.put('new', 1)
    await clock.advance(500)
    await things.converged()
    expect(changes.toSorted()).toEqual(['changed', 'gone', 'new'])
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

  it('ignores events without an object', async () => {
    await things.follow()
    for (const object of [
      undefined,
      null,
      5,
      {},
      { metadata: 5 },
      { metadata: { name: 'x', namespace: 7 } },
    ])
      api.send({ type: 'MODIFIED', object })
    things.put('a', 1)
    await things.converged()
    expect(errors).toEqual([])
  })

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
    await things.follow({}, { silenceMs: 90_000 })
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
    things.begin({}, { silenceMs: 90_000 })
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
