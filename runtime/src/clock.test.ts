import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from './clock.js'

afterEach(() => vi.restoreAllMocks())

describe("the machine's clock", () => {
  it('when it is set, changes what others read, and nothing that waits', () => {
    const before = systemClock.monotonicMs()
    expect(Math.abs(before - systemClock.wallMs())).toBeLessThan(60_000)
    const wrong = Date.now() - 365 * 86_400_000
    vi.spyOn(Date, 'now').mockReturnValue(wrong)
    expect(systemClock.wallMs()).toBe(wrong)
    expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before)
  })
})
