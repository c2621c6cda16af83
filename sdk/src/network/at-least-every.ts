import { type Clock, currentClock } from '@akrijs/runtime'
import { every } from '../every.js'

/**
 * Yields each value of a source at once, and repeats the last value at each interval. Ends with the
 * source.
 * @param interval milliseconds, or a text such as `'10s'`
 * @param options the signal and the clock
 * @param options.signal ends the repetition
 * @param options.clock the source of time @default the clock of the discovery, see `currentClock`
 * @throws InvalidIntervalError
 */
export async function* atLeastEvery<T>(
  source: AsyncIterable<T>,
  interval: number | string,
  { signal, clock = currentClock() }: { readonly signal: AbortSignal; readonly clock?: Clock },
): AsyncGenerator<T, void, void> {
  const over = new AbortController()
  const ticks = every(interval, { signal: AbortSignal.any([signal, over.signal]), clock })
  const values = source[Symbol.asyncIterator]()
  try {
    const first = await values.next()
    if (first.done) return
    let last = first.value
    yield last
    await ticks.next()
    let value = values.next()
    let tick = ticks.next()
    for (;;) {
      const event = await Promise.race([value.then((result) => ({ result })), tick])
      if ('result' in event) {
        if (event.result.done) return
        last = event.result.value
        value = values.next()
      } else {
        tick = ticks.next()
      }
      yield last
    }
  } finally {
    over.abort()
  }
}
