/**
 * Does work with a signal that is aborted when the given one is, or when the time is over. With AbortSignal.timeout in its place
 * there would be no limit: AbortSignal.any of Node.js 20 leaves that to the garbage collection.
 */
export async function withTimeLimit<T>(ms: number, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(new DOMException(`it took longer than ${ms} ms`, 'TimeoutError')), ms)
  try {
    return await work(AbortSignal.any([signal, over.signal]))
  } finally {
    clearTimeout(timer)
  }
}
