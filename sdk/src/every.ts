import { type Clock, currentClock, requireSignal, toMilliseconds } from '@akrijs/runtime'

/**
 * Yields at once and then at each interval, until the signal is aborted. Skips the rounds that a
 * slow loop body misses. The wait for the next round does not keep the process running: a program
 * that waits for nothing else ends.
 * @param interval milliseconds, or a text such as `'500ms'`, `'10s'`, `'5m'`, `'1h'`
 * @param options the signal and the clock
 * @throws InvalidIntervalError, and InvalidOptionError without a signal
 *
 * @example
 * for await (const _ of every('10s', { signal })) yield await listSensors(details.url, signal)
 */
export async function* every(
  interval: number | string,
  options: {
    /** Ends the loop. */
    readonly signal: AbortSignal
    /** The source of time. @default the clock of the discovery, see `currentClock` */
    readonly clock?: Clock
  },
): AsyncGenerator<number, void, void> {
  const ms = toMilliseconds(interval)
  const signal = requireSignal(options?.signal, 'every(interval, { signal })')
  const { clock = currentClock() } = options
  let due = clock.monotonicMs()
  for (let round = 0; !signal.aborted; round++) {
    yield round
    const now = clock.monotonicMs()
    due += ms * Math.max(1, Math.ceil((now - due) / ms))
    try {
      // A manual clock ends no sleep of 0 ms by itself.
      if (due > now) await clock.sleep(due - now, signal, { ref: false })
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
  }
}
