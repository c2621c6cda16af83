import { describe, expect, it } from 'vitest'
import { Backoff } from './backoff.js'

describe('Backoff', () => {
  it('doubles up to its ceiling and starts again after a success', () => {
    const waits = new Backoff({ initialMs: 100, ceilingMs: 500, random: () => 0 })
    expect(Array.from({ length: 5 }, () => waits.next())).toEqual([100, 200, 400, 500, 500])
    waits.reset()
    expect(waits.next()).toBe(100)
  })

  it('shortens a wait by half at most', () => {
    expect(new Backoff({ initialMs: 100, random: () => 0.999 }).next()).toBe(50)
  })
})
