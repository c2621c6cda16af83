import type { SlotName } from '@akrijs/api'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { RestoreBackoff } from './restore-backoff.js'

const slot = 'cam-8120fe-0' as SlotName

it('a slot is restored at once, then after waits, at once after a minute', async () => {
  const clock = new ManualClock(1_000_000)
  const backoff = new RestoreBackoff(clock)
  expect(backoff.retryAt(slot)).toBeLessThanOrEqual(clock.monotonicMs())
  for (const longest of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
    backoff.recordAttempt(slot)
    const waitMs = backoff.retryAt(slot) - clock.monotonicMs()
    expect(waitMs).toBeGreaterThanOrEqual(longest / 2)
    expect(waitMs).toBeLessThanOrEqual(longest)
    expect(backoff.retryAt('cam-8120fe-1' as SlotName)).toBeLessThanOrEqual(clock.monotonicMs())
    await clock.advance(waitMs)
  }
  await clock.advance(60_000)
  backoff.recordAttempt(slot)
  expect(backoff.retryAt(slot) - clock.monotonicMs()).toBeLessThanOrEqual(1000)
})
