import { expect } from 'vitest'
import type { ApiClient } from '../api-client.js'

/** The error that the work rejects with. */
export async function failure(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  return expect.fail('it did not fail')
}

export const get = (client: ApiClient, signal?: AbortSignal) =>
  client.request({ method: 'GET', path: '/x', signal })
