import { TokenBucket } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { WRITE_BUDGET } from './broker-info.js'

describe('the write budget of a node', () => {
  it('R69 allows a hundred writes at once and then ten a second, after any pause', async () => {
    const clock = new ManualClock()
    const budget = new TokenBucket({ clock, ...WRITE_BUDGET })
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
