import { type Clock, systemClock } from '@akrijs/runtime'
import { InvalidIntervalError } from './errors.js'

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/**
 * Yields at once and then at each interval, until the signal is aborted. Skips the rounds that a
 * slow loop body misses.
 * @param interval milliseconds, or a text such as `'500ms'`, `'10s'`, `'5m'`, `'1h'`
 * @throws InvalidIntervalError
 */
export async function* every(
  interval: number | string,
  { signal, clock = systemClock }: { readonly signal: AbortSignal; readonly clock?: Clock },
): AsyncGenerator<number, void, void> {
  const ms = toMilliseconds(interval)
  let due = clock.monotonicMs()
  for (let round = 0; !signal.aborted; round++) {
    yield round
    const now = clock.monotonicMs()
    due += ms * Math.max(1, Math.ceil((now - due) / ms))
    try {
      await clock.sleep(due - now, signal)
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
  }
}

function toMilliseconds(interval: number | string): number {
  const [, digits, unit] =
    typeof interval === 'string' ? (/^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(interval) ?? []) : []
  const ms =
    typeof interval === 'number' ? interval : Number(digits) * (UNITS[unit ?? ''] ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 1) return ms
  throw new InvalidIntervalError(
    `${JSON.stringify(interval)} is not an interval; write milliseconds, or a text such as ` +
      '"500ms", "10s", "5m", "1h"',
  )
}
