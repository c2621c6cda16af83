import { afterEach, describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../testing/manual-clock.js'
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

  it.each([2 ** 31, Number.POSITIVE_INFINITY])('waits for %s ms, until its signal', async (ms) => {
    const stop = new AbortController()
    const sleep = systemClock.sleep(ms, stop.signal)
    const first = await Promise.race([sleep, systemClock.sleep(50).then(() => 'the short wait')])
    expect(first).toBe('the short wait')
    stop.abort(new TypeError('stopped'))
    await expect(sleep).rejects.toThrow('stopped')
  })

  it('waits in parts for a time that is longer than that of a timer', async () => {
    vi.useFakeTimers()
    let isOver = false
    const sleep = systemClock.sleep(2 ** 32).then(() => {
      isOver = true
    })
    await vi.advanceTimersByTimeAsync(2 ** 32 - 1)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await sleep
    vi.useRealTimers()
  })

  it('keeps the process running while it waits, unless it is told not to', async () => {
    const timer = vi.spyOn(globalThis, 'setTimeout')
    const stop = new AbortController()
    const sleeps = [true, false].map((ref) => systemClock.sleep(1000, stop.signal, { ref }))
    expect(timer.mock.results.map(({ value }) => value.hasRef())).toEqual([true, false])
    stop.abort()
    await Promise.allSettled(sleeps)
  })

  it.each([['5s'], [Number.NaN], [undefined]])('refuses to sleep for %s', async (ms) => {
    for (const clock of [systemClock, new ManualClock()]) {
      const sleep = Reflect.apply(clock.sleep, clock, [ms])
      await expect(sleep).rejects.toThrow(/is not a time to sleep; write milliseconds/)
    }
  })
})
