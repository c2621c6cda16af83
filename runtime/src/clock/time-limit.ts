import { requireSignal } from '../flow/aborted.js'
import { runAfter } from './clock.js'
import { currentClock } from './current-clock.js'
import { toLimit } from './interval.js'

/**
 * Runs work with a signal that is aborted together with `signal`, or when the time is over. The
 * work must end then. `AbortSignal.any([signal, AbortSignal.timeout(ms)])` is no limit: Node.js 20
 * may collect both as garbage too early. It also keeps each result of `any` that has a listener
 * until one of its sources is aborted.
 * @param time the time, by {@link currentClock}: milliseconds, or a text such as `'10s'`.
 * `Infinity` is no limit. The reason of the abort is a DOMException named TimeoutError.
 * @throws InvalidIntervalError, and InvalidOptionError without a signal
 *
 * @example
 * yield await withTimeLimit('5s', signal, (limited) => listSensors(details.url, limited))
 */
export async function withTimeLimit<T>(
  time: number | string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ms = toLimit(time)
  requireSignal(signal, 'withTimeLimit(ms, signal, work)')
  const over = new AbortController()
  const onAbort = () => over.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  const done = new AbortController()
  runAfter(currentClock(), ms, done.signal, () =>
    over.abort(new DOMException(`it took longer than ${ms} ms`, 'TimeoutError')),
  )
  try {
    return await work(over.signal)
  } finally {
    done.abort()
    signal.removeEventListener('abort', onAbort)
  }
}
