import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { type FakeApiServer, refuse } from './testing/fake-api-server.js'
import { ReflectedThings, type Thing } from './testing/things.js'

let clock: ManualClock
let things: ReflectedThings
let api: FakeApiServer
let changes: readonly string[]

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  things = await ReflectedThings.open(clock)
  ;({ api, changes } = things)
})

afterEach(() => things.close())

describe('the answer to a write', () => {
  const thing = (name: string, resourceVersion: string, value: unknown): Thing => ({
    metadata: { namespace: 'n', name, resourceVersion },
    value,
  })
  const event = (type: string, object: Thing) => api.send({ type, object })
  const seen = async (names: string[]) => {
    event('MODIFIED', thing('last', '9999', 0))
    await eventually(() => expect(changes).toEqual([...names, 'last']))
  }

  it('counts at once, and older events of the watch do not', async () => {
    things.put('a', 'old')
    await things.follow()
    things.reflector.observe(thing('a', '500', 'written'))
    expect(things.values()).toEqual({ a: 'written' })
    event('MODIFIED', thing('a', '300', 'before'))
    event('DELETED', thing('a', '400', 'before'))
    event('MODIFIED', thing('a', '500', 'written'))
    await seen(['a'])
    expect(things.values()).toMatchObject({ a: 'written' })
  })

  it('is not removed by an older object that cannot be parsed', async () => {
    await things.follow({
      parse: (object) => ((object as Thing).value === 'bad' ? undefined : (object as Thing)),
    })
    things.reflector.observe(thing('a', '500', 'written'))
    event('MODIFIED', thing('a', '300', 'bad'))
    await seen(['a'])
    expect(things.values()).toMatchObject({ a: 'written' })
  })

  it('is replaced by a newer object', async () => {
    await things.follow()
    things.reflector.observe(thing('a', '500', 'written'))
    things.reflector.observe(thing('a', '400', 'late answer'))
    event('MODIFIED', thing('a', '600', 'newer'))
    await eventually(() => expect(things.values()).toEqual({ a: 'newer' }))
    event('DELETED', thing('a', '700', 'newer'))
    await eventually(() => expect(things.values()).toEqual({}))
  })

  it('compares versions as numbers', async () => {
    await things.follow()
    things.reflector.observe(thing('a', '1000', 'written'))
    things.reflector.observe(thing('a', '999', 'older'))
    expect(things.values()).toEqual({ a: 'written' })
  })

  it('does not bring back an object that the watch has already deleted', async () => {
    await things.follow()
    const written = things.put('a', 1)
    things.remove('a')
    await eventually(() => expect(changes).toEqual(['a', 'a']))
    expect(things.reflector.observe(written)).toBe(written)
    expect(things.values()).toEqual({})
  })

  it('is not undone by a list that is older than the write', async () => {
    await things.follow()
    api.watchAnswers.push(refuse(410, 'Expired'))
    api.listAnswers.push((_query, response) => {
      const version = api.store.version
      const written = things.put('a', 'written')
      things.reflector.observe(written)
      response.end(JSON.stringify({ metadata: { resourceVersion: version }, items: [] }))
    })
    await clock.advance(5000)
    api.endWatches()
    await things.afterFailures(1)
    await things.watching()
    expect(things.values()).toEqual({ a: 'written' })
    expect(changes).toEqual(['a'])
  })

  it('is removed if a later list does not have it, also after a backup was restored', async () => {
    await things.follow()
    things.reflector.observe(thing('a', '5000', 'lost by the backup'))
    api.listAnswers.push((_query, response) =>
      response.end(
        JSON.stringify({ metadata: { resourceVersion: '50' }, items: [thing('b', '40', 'there')] }),
      ),
    )
    api.watchAnswers.push(refuse(410, 'Expired'))
    await clock.advance(5000)
    api.endWatches()
    await things.afterFailures(1)
    await eventually(() => expect(things.values()).toEqual({ b: 'there' }))
  })

  it('has no effect if it cannot be parsed', async () => {
    await things.follow({ parse: () => undefined })
    expect(things.reflector.observe(thing('a', '500', 0))).toBeUndefined()
    expect(things.reflector.observe(undefined)).toBeUndefined()
    expect(things.reflector.observe('text')).toBeUndefined()
    expect(things.reflector.list()).toEqual([])
  })
})
