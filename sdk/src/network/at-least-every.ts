import { type Clock, currentClock, requireSignal, toMilliseconds } from '@akrijs/runtime'

/**
 * Yields each value of a source at once, and repeats the last value at each interval. Ends with the
 * source.
 * @param interval milliseconds, or a text such as `'10s'`
 * @param options the signal and the clock
 * @throws InvalidIntervalError, and InvalidOptionError without a signal
 *
 * @example
 * // A list at least each minute, from sensors that report only changes.
 * yield* atLeastEvery(watchSensors(details.url), '1m', { signal })
 */
export async function* atLeastEvery<T>(
  source: AsyncIterable<T>,
  interval: number | string,
  options: {
    /** Ends the repetition. */
    readonly signal: AbortSignal
    /** The source of time. @default the clock of the discovery, see `currentClock` */
    readonly clock?: Clock
  },
): AsyncGenerator<T, void, void> {
  const ms = toMilliseconds(interval)
  const signal = requireSignal(options?.signal, 'atLeastEvery(source, interval, { signal })')
  const { clock = currentClock() } = options
  const values = source[Symbol.asyncIterator]()
  const first = await values.next()
  if (first.done) return
  let last = first.value
  yield last
  let due = clock.monotonicMs() + ms
  for (;;) {
    const value = values.next()
    const wake = new AbortController()
    const end = () => wake.abort()
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    // One reaction for each value, not for each tick: a value that does not come would keep them.
    value.then(end, end)
    let result: IteratorResult<T>
    try {
      while (!wake.signal.aborted) {
        const now = clock.monotonicMs()
        if (due <= now) due += ms * Math.max(1, Math.ceil((now - due) / ms))
        await clock.sleep(due - now, wake.signal).catch((error: unknown) => {
          if (!wake.signal.aborted) throw error
        })
        if (!wake.signal.aborted) yield last
      }
      result = await value
    } finally {
      signal.removeEventListener('abort', end)
      end()
    }
    if (result.done) return
    last = result.value
    yield last
  }
}
