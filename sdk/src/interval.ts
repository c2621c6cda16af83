import { InvalidIntervalError } from './errors.js'

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** The longest time of a timer of Node.js, 24 days: a longer one is over at once. */
const MAX_MS = 2 ** 31 - 1

/** @throws InvalidIntervalError */
export function toMilliseconds(interval: number | string): number {
  const [, digits, unit] =
    typeof interval === 'string' ? (/^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(interval) ?? []) : []
  const ms =
    typeof interval === 'number' ? interval : Number(digits) * (UNITS[unit ?? ''] ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 1 && ms <= MAX_MS) return ms
  throw new InvalidIntervalError(
    `${JSON.stringify(interval)} is not an interval; write milliseconds, or a text such as ` +
      '"500ms", "10s", "5m", "1h"; at most 24 days',
  )
}
