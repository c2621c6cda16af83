import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { writeBudget } from './write-budget.js'

describe('what a node may write for its workloads', () => {
  it('R69 is a hundred writes at once, and then ten a second, however long nothing was written before', async () => {
    const clock = new ManualClock()
    const budget = writeBudget(clock)
    const granted = () => {
      let count = 0
      while (budget.take() === 0) count++
      return count
    }
    await clock.advance(3_600_000)
    expect(granted()).toBe(100)
    await clock.advance(1000)
    expect(granted()).toBe(10)
    await clock.advance(99)
    expect(granted()).toBe(0)
    await clock.advance(1)
    expect(granted()).toBe(1)
  })
})
