import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { RefreshSchedule } from './refresh-schedule.js'

function open() {
  const clock = new ManualClock()
  const limits = { refreshMs: 1000, retryMs: 100, maxRefreshes: 2 }
  const schedule = new RefreshSchedule<number>({ clock, ...limits })
  const takeDue = (...keys: string[]) => schedule.takeDue(keys, (key) => key)
  return { clock, schedule, takeDue }
}

describe('a refresh schedule', () => {
  it('gives all new devices and some overdue devices, the most overdue first', async () => {
    const { clock, schedule, takeDue } = open()
    for (const key of ['a', 'b', 'c']) {
      schedule.succeed(key, 1)
      await clock.advance(1)
    }
    expect(takeDue('c', 'b', 'a', 'x', 'y', 'z')).toEqual(['x', 'y', 'z'])
    await clock.advance(1000)
    expect(takeDue('c', 'b', 'a', 'x', 'y', 'z')).toEqual(['x', 'y', 'z', 'a', 'b'])
  })

  it('forgets a device that is not listed', () => {
    const { schedule, takeDue } = open()
    schedule.succeed('a', 1)
    expect(takeDue('b')).toEqual(['b'])
    expect(takeDue('a')).toEqual(['a'])
    expect(schedule.get('a')).toBeUndefined()
  })

  it('keeps the last value after failures, and doubles the wait to its ceiling', async () => {
    const { clock, schedule, takeDue } = open()
    schedule.succeed('a', 7)
    for (const waitMs of [100, 200, 400, 800, 1000, 1000]) {
      schedule.fail('a')
      await clock.advance(waitMs - 1)
      expect(takeDue('a')).toEqual([])
      await clock.advance(1)
      expect(takeDue('a')).toEqual(['a'])
    }
    expect(schedule.get('a')).toMatchObject({ value: 7, answeredAt: 0, failures: 6 })
    schedule.succeed('a', 8)
    expect(schedule.fail('a')).toBe(1)
  })
})
