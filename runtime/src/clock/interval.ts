import { InvalidIntervalError } from '../errors/errors.js'
import { shorten } from '../text/printable.js'

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** The longest time of a timer of Node.js, 24 days: a longer one is over at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * An interval, as a number of milliseconds. Takes any value: at run time a handler is JavaScript.
 * @throws InvalidIntervalError
 */
export function toMilliseconds(interval: unknown): number {
  const [, digits, unit] =
    typeof interval === 'string' ? (/^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(interval) ?? []) : []
  const ms =
    typeof interval === 'number' ? interval : Number(digits) * (UNITS[unit ?? ''] ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 1 && ms <= MAX_TIMER_MS) return ms
  throw new InvalidIntervalError(
    `${textOf(interval)} is not an interval; write milliseconds, or a text such as ` +
      '"500ms", "10s", "5m", "1h"; at most 24 days',
  )
}

/**
 * The time of a limit, in milliseconds. A number can be 0 or less, for a time that is over, or
 * Infinity.
 * @throws InvalidIntervalError
 */
export function toLimit(time: unknown): number {
  return typeof time === 'number' && !Number.isNaN(time) ? time : toMilliseconds(time)
}

/**
 * The time of a wait, as of {@link toLimit}, without texts: the `sleep` of a clock takes a number.
 * @throws InvalidIntervalError
 */
export function checkWait(ms: unknown): number {
  if (typeof ms === 'number' && !Number.isNaN(ms)) return ms
  throw new InvalidIntervalError(`${textOf(ms)} is not a time to sleep; write milliseconds`)
}

function textOf(value: unknown): string {
  return typeof value === 'bigint' ? `${shorten(value)}n` : shorten(value)
}
