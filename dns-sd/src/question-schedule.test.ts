import { beforeEach, describe, expect, it } from 'vitest'
import { QuestionSchedule } from './question-schedule.js'

let schedule: QuestionSchedule
let now: number

beforeEach(() => {
  schedule = new QuestionSchedule(() => 0.5)
  now = 1_000_000
})

/** The times of the next queries, relative to now. */
function next(count: number): number[] {
  const begin = now
  return Array.from({ length: count }, () => {
    now = schedule.dueAt
    expect(schedule.takeDue(now)).toBe(true)
    return now - begin
  })
}

describe('queries for all services', () => {
  it('are sent soon, and then with doubled waits up to an hour', () => {
    expect(schedule.takeDue(now)).toBe(false)
    schedule.begin(now)
    expect(next(7)).toEqual([70, 1070, 3070, 7070, 15_070, 31_070, 63_070])
    next(10)
    expect(next(2)).toEqual([3_600_000, 7_200_000])
  })

  it('restart with the shortest wait', () => {
    schedule.begin(now)
    next(12)
    now += 5000
    schedule.begin(now)
    expect(next(4)).toEqual([70, 1070, 3070, 7070])
  })

  it('are not sent twice in a second, and not postponed, by any number of restarts', () => {
    schedule.begin(now)
    next(1)
    const times: number[] = []
    const begin = now
    for (const end = now + 3000; now <= end; now += 10) {
      schedule.begin(now)
      if (schedule.takeDue(now)) times.push(now - begin)
    }
    expect(times).toEqual([1000, 2000, 3000])
  })
})
