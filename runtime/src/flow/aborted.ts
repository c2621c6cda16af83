import { InvalidOptionError } from '../errors/errors.js'

/**
 * The signal of a call. At run time a handler is JavaScript: it can forget the signal, or give its
 * controller.
 * @param usage the right call, for the message
 * @throws InvalidOptionError
 */
export function requireSignal(signal: AbortSignal, usage: string): AbortSignal {
  if (typeof signal?.addEventListener === 'function') return signal
  throw new InvalidOptionError(`there is no signal; write ${usage}, with the signal of discover`)
}

/**
 * Resolves when the signal is aborted. The listener is removed when `until` is aborted.
 *
 * @example
 * const server = await serve(handler)
 * await aborted(signal)
 * await server.close()
 */
export function aborted(signal: AbortSignal, until?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener(
      'abort',
      () => resolve(),
      until === undefined ? { once: true } : { once: true, signal: until },
    )
  })
}

/** @returns the promise's value; undefined if the signal is aborted first */
export async function untilAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const over = new AbortController()
  try {
    return await Promise.race([promise, aborted(signal, over.signal).then(() => undefined)])
  } finally {
    over.abort()
  }
}
