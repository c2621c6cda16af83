import { toMilliseconds } from '@akrijs/runtime'

/** Bounds of {@link interval}: milliseconds, or texts such as `'5s'`. */
export interface IntervalBounds {
  /** The shortest interval. @default 1 millisecond */
  readonly atLeast?: number | string
  /** The longest interval. @default 24 days */
  readonly atMost?: number | string
}

/**
 * A check of an interval in `discoveryDetails`, such as `10s`, with the message for any other text.
 * `every` and `withTimeLimit` take the text as it is.
 *
 * @param bounds the shortest and the longest interval
 * @returns the arguments of `refine` of zod, and of `check` of valibot
 * @throws InvalidIntervalError if a bound is not an interval
 *
 * @example
 * // In valibot: v.pipe(v.string(), v.check(...interval()))
 * const Details = z.strictObject({
 *   every: z.string().refine(...interval({ atLeast: '5s' })).default('1m'),
 * })
 */
export function interval(
  bounds: IntervalBounds = {},
): [check: (text: string) => boolean, message: string] {
  const { atLeast = 1, atMost } = bounds
  const [least, most] = [toMilliseconds(atLeast), atMost && toMilliseconds(atMost)]
  const limits = [
    ...(atLeast === 1 ? [] : [` of at least ${textOf(atLeast)}`]),
    ...(atMost === undefined ? [] : [` of at most ${textOf(atMost)}`]),
  ]
  const check = (text: string) => {
    try {
      const ms = toMilliseconds(text)
      return ms >= least && ms <= (most || Number.POSITIVE_INFINITY)
    } catch {
      return false
    }
  }
  return [check, `write an interval${limits.join(' and')}, such as ${example(least, atMost)}`]
}

function textOf(bound: number | string): string {
  return typeof bound === 'number' ? `${bound}ms` : bound
}

/** An interval that is long enough, and not too long. */
function example(leastMs: number, atMost: number | string | undefined): string {
  const rounded = `${Math.ceil(leastMs / 3_600_000)}h`
  const shown = leastMs <= 10_000 ? '10s' : leastMs <= 600_000 ? '10m' : rounded
  const isTooLong = atMost !== undefined && toMilliseconds(shown) > toMilliseconds(atMost)
  return isTooLong ? textOf(atMost) : shown
}
