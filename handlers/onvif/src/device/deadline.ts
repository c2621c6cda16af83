/**
 * Runs something that ends with a signal, or after so many milliseconds; what does not listen to its signal is left behind.
 * @throws what `late` makes when the time is over; the signal's reason
 */
export async function withDeadline<T>(
  signal: AbortSignal,
  ms: number,
  late: () => Error,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const end = new AbortController()
  const stop = () => end.abort(signal.reason)
  const timer = setTimeout(() => end.abort(late()), ms)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const ended = new Promise<never>((_resolve, reject) => {
      end.signal.addEventListener('abort', () => reject(end.signal.reason), { once: true })
    })
    return await Promise.race([run(end.signal), ended])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}
