import { afterEach, expect, it, vi } from 'vitest'
import { placeFetchErrors } from './fetch-places.js'

afterEach(() => vi.unstubAllGlobals())

/** Installs the places over a `fetch` that fails with an error. */
function failWith(error: unknown): void {
  vi.stubGlobal('fetch', () => new Promise((_, reject) => setImmediate(() => reject(error))))
  placeFetchErrors()
}

async function read(): Promise<unknown> {
  return await fetch('http://hall.local/')
}

/** As the error of a connection with Node.js 24. */
function withoutPlaces(): TypeError {
  const error = new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') })
  error.stack = 'TypeError: fetch failed'
  return error
}

it('gives an error of fetch without places the place that waits for the answer', async () => {
  const error = withoutPlaces()
  failWith(error)
  await expect(read()).rejects.toBe(error)
  expect(error.stack).toMatch(/^TypeError: fetch failed\n(.*\n)*? +at (async )?read .*fetch-places/)
  expect(error.stack).not.toMatch(/at (async )?fetch /)
})

it('leaves the stack of any other error', async () => {
  const reason = new Error('the reason of a signal')
  const { stack } = reason
  const frozen = Object.freeze(withoutPlaces())
  for (const error of [reason, frozen, 'text', undefined, null]) {
    failWith(error)
    await expect(read()).rejects.toBe(error)
  }
  expect([reason.stack, frozen.stack]).toEqual([stack, 'TypeError: fetch failed'])
})

it('gives answers on, and takes its place once', async () => {
  const answer = new Response()
  const original = vi.fn(async () => answer)
  vi.stubGlobal('fetch', original)
  placeFetchErrors()
  const placed = globalThis.fetch
  placeFetchErrors()
  expect(globalThis.fetch).toBe(placed)
  const init = { method: 'POST' }
  expect(await fetch('http://hall.local/', init)).toBe(answer)
  expect(original.mock.calls).toEqual([['http://hall.local/', init]])
  expect([fetch.name, fetch.length]).toEqual(['fetch', 1])
})

it('leaves a program without fetch as it is', () => {
  vi.stubGlobal('fetch', undefined)
  placeFetchErrors()
  expect(globalThis.fetch).toBeUndefined()
})
