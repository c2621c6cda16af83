import { aborted } from '@akrijs/runtime'

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
