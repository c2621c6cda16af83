import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { ReflectedThings } from './testing/things.js'

let clock: ManualClock
let things: ReflectedThings

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  things = await ReflectedThings.open(clock)
})

afterEach(() => things.close())

const reports = () =>
  things.errors.map(([error]) => error).filter((error) => error.includes('backup'))

describe.each([false, true])('after a restored backup (streams: %j)', (streams) => {
  /** A cache that knows the objects of both; then the store is that of the backup. */
  async function followThenRestore(): Promise<void> {
    things.api.streamsLists = streams
    for (const name of ['same', 'changed', 'removed']) things.put(name, 'backup')
    const restore = things.api.store.backup()
    await things.follow({}, { silenceMs: 90_000 })
    things.put('changed', 'later')
    things.put('later', 'later')
    things.remove('removed')
    await things.converged()
    restore()
  }

  it.each([
    ['all servers were away', () => things.api.cut()],
    ['a watch has only been silent', () => things.api.endWatches()],
  ])('the cache has the objects of the backup, and says so once: %s', async (_what, restart) => {
    await followThenRestore()
    await clock.advance(5000)
    restart()
    await eventually(async () => {
      await clock.advance(30_000)
      expect(things.values()).toEqual({ same: 'backup', changed: 'backup', removed: 'backup' })
    })
    await things.watching()
    things.put('changed', 'after')
    await things.converged()
    expect(reports()).toHaveLength(1)
    expect(reports()[0]).toContain('has version 103, and had version 106 before')
  })
})
