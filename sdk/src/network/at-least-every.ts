import type { Clock } from '@akrijs/runtime'
import { every } from '../every.js'

/**
 * Yields each value of a source at once, and repeats the last value at each interval. Ends with the
 * source.
 */
export async function* atLeastEvery<T>(
  source: AsyncIterable<T>,
  interval: number | string,
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
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
