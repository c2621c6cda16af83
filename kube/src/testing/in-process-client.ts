import type { Clock } from '@akrijs/runtime'
import { ApiClient, type ApiRequest } from '../api-client.js'
import { ApiUnreachableError } from '../errors.js'
import type { StoreRequest } from './object-store.js'

/** A client that asks a function in place of a server. */
export class InProcessClient extends ApiClient {
  readonly #serve: (request: StoreRequest) => Promise<unknown>

  constructor(clock: Clock, serve: (request: StoreRequest) => Promise<unknown>) {
    super({
      access: { server: new URL('http://x'), credentials: async () => ({}) },
      clock,
      userAgent: 'test',
    })
    this.#serve = serve
  }

  override request({
    method,
    path,
    query = {},
    body,
    patch,
    signal,
  }: ApiRequest): Promise<unknown> {
    const parameters = Object.entries(query).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    )
    const search = new URLSearchParams(parameters)
    const manager = search.get('fieldManager') ?? 'test'
    const request = { method, path, query: search, body: structuredClone(body), patch, manager }
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(new ApiUnreachableError('aborted'))
      if (signal?.aborted) return onAbort()
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#serve(request)
        .then(resolve, reject)
        .finally(() => signal?.removeEventListener('abort', onAbort))
    })
  }
}
