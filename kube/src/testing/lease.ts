import type { Clock } from '@akrijs/runtime'
import type { ApiClient, ApiRequest } from '../api-client.js'
import { ApiError } from '../errors.js'
import { TestClient } from './client.js'

interface Lease {
  metadata: { name: string; namespace: string; resourceVersion?: string; [more: string]: unknown }
  spec: { holderIdentity: string; renewTime?: string; [more: string]: unknown }
}

/** What becomes of one request. Times in milliseconds; a request that does not arrive is never answered. */
export interface Fate {
  readonly arrivesIn?: number
  readonly answeredIn?: number
  readonly refused?: boolean
}

/** One Lease on an API server that is as slow as a test wants. What has been sent arrives, also when nobody waits for it. */
export class LeaseServer {
  lease: Lease | undefined
  requests = 0
  #version = 0
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  set(spec: Lease['spec'], metadata: object = {}): void {
    this.lease = {
      metadata: {
        name: 'lease',
        namespace: 'n',
        ...metadata,
        resourceVersion: String(++this.#version),
      },
      spec,
    }
  }

  client(fate: (request: ApiRequest) => Fate = () => ({})): ApiClient {
    return new TestClient(this.#clock, (request) => this.#serve(request, fate(request)))
  }

  async #serve(
    request: ApiRequest,
    { arrivesIn = 0, answeredIn = 0, refused = false }: Fate,
  ): Promise<unknown> {
    this.requests++
    if (arrivesIn > 0) await this.#sleep(arrivesIn)
    const answer = refused ? this.#refusal(500, 'InternalError') : this.#carryOut(request)
    if (answeredIn > 0) await this.#sleep(answeredIn)
    if (answer instanceof ApiError) throw answer
    return answer
  }

  #sleep(ms: number): Promise<void> {
    return ms === Number.POSITIVE_INFINITY ? new Promise(() => {}) : this.#clock.sleep(ms)
  }

  #carryOut({ method, body }: ApiRequest): unknown {
    if (method === 'GET')
      return this.lease === undefined ? this.#refusal(404, 'NotFound') : structuredClone(this.lease)
    const { metadata, spec } = structuredClone(body) as Lease
    if (method === 'POST' && this.lease !== undefined) return this.#refusal(409, 'AlreadyExists')
    if (method === 'PUT' && metadata.resourceVersion !== this.lease?.metadata.resourceVersion)
      return this.#refusal(409, 'Conflict')
    this.set(spec, metadata)
    return structuredClone(this.lease)
  }

  #refusal(status: number, reason: string): ApiError {
    return new ApiError('lease', { status, reason, message: reason })
  }
}
