import { hasPlaces } from '@akrijs/runtime'

const PLACED = Symbol.for('akri.fetch-places')

/**
 * Lets an error of `fetch` name the place that waits for the answer. With Node.js 24 the error of a
 * connection comes from a callback of the network, and that of a time limit from a timer, so their
 * stacks have no places of the caller.
 */
export function placeFetchErrors(): void {
  // An option of Node.js 20 takes fetch away.
  const original: typeof fetch | undefined = globalThis.fetch
  if (original === undefined || PLACED in original) return
  const placed = async function fetch(
    input: string | URL | Request,
    init: RequestInit | undefined = undefined,
  ): Promise<Response> {
    try {
      return await original(input, init)
    } catch (error) {
      if (isOfFetch(error) && Object.isExtensible(error) && !hasPlaces(error))
        Error.captureStackTrace(error, placed)
      throw error
    }
  }
  globalThis.fetch = Object.assign(placed, { [PLACED]: true })
}

function isOfFetch(error: unknown): error is Error {
  const isTimeout = error instanceof DOMException && error.name === 'TimeoutError'
  return error instanceof TypeError || isTimeout
}
