import type { Clock } from '@akrijs/runtime'
import { ApiClient, type ApiRequest } from '../api-client.js'
import { ApiUnreachableError } from '../errors.js'

/** Asks a function in place of a server: nothing takes longer than the clock of a test says. */
export class TestClient extends ApiClient {
  readonly #serve: (request: ApiRequest) => Promise<unknown>

  constructor(clock: Clock, serve: (request: ApiRequest) => Promise<unknown>) {
    super({
      access: { server: new URL('http://x'), credentials: async () => ({}) },
      clock,
      userAgent: 'test',
    })
    this.#serve = serve
  }

  override request(request: ApiRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(new ApiUnreachableError('aborted'))
      if (request.signal?.aborted) return onAbort()
      request.signal?.addEventListener('abort', onAbort, { once: true })
      const served = this.#serve(structuredClone({ ...request, signal: undefined }))
      served
        .then(resolve, reject)
        .finally(() => request.signal?.removeEventListener('abort', onAbort))
    })
  }
}
