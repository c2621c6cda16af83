/**
 * Does work with a signal that is aborted when the given one is, or when the time is over. It is for the work to end then.
 * `AbortSignal.any([signal, AbortSignal.timeout(ms)])` in its place is no limit: in Node.js 20 both may be collected as garbage
 * before the time is over.
 * @param ms how long it may take, in milliseconds. The reason of the abort is a DOMException named TimeoutError.
 */
export async function withTimeLimit<T>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const timer = setTimeout(
    () => over.abort(new DOMException(`it took longer than ${ms} ms`, 'TimeoutError')),
    ms,
  )
  try {
    return await work(AbortSignal.any([signal, over.signal]))
  } finally {
    clearTimeout(timer)
  }
}
