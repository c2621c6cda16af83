/**
 * Runs work with a signal that is aborted together with `signal`, or when the time is over. The
 * work must end then. `AbortSignal.any([signal, AbortSignal.timeout(ms)])` is no limit: Node.js 20
 * may collect both as garbage too early. It also keeps each result of `any` that has a listener
 * until one of its sources is aborted.
 * @param ms the time in milliseconds. The reason of the abort is a DOMException named TimeoutError.
 */
export async function withTimeLimit<T>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const onAbort = () => over.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  const timer = setTimeout(
    () => over.abort(new DOMException(`it took longer than ${ms} ms`, 'TimeoutError')),
    ms,
  )
  try {
    return await work(over.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}
