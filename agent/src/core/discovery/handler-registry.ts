import { Listeners } from '@akrijs/runtime'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'
import type { EndpointUse } from './endpoint-room.js'

/** The endpoints of a name changed, or an endpoint of the name registered again. */
interface RegistryChange {
  readonly name: string
  readonly reregistered?: HandlerEndpoint
  readonly dropped?: HandlerEndpoint
}

/** The endpoints of handlers, by the name of the handler. */
export class HandlerRegistry {
  /** In the order of registration. An endpoint that registers again is the last. */
  readonly #endpoints = new Set<HandlerEndpoint>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()
  #useOf: (endpoint: HandlerEndpoint) => EndpointUse = () => 'unused'

  /** The endpoints of a handler, in a stable order. */
  endpoints(name: string): readonly HandlerEndpoint[] {
    return [...this.#endpoints]
      .filter((endpoint) => endpoint.name === name)
      .sort((a, b) => (a.uid < b.uid ? -1 : 1))
  }

  get names(): readonly string[] {
    return [...new Set([...this.#endpoints].map(({ name }) => name))].sort()
  }

  get size(): number {
    return this.#endpoints.size
  }

  /** All endpoints, in the order of registration. */
  get all(): readonly HandlerEndpoint[] {
    return [...this.#endpoints]
  }

  /** Adds an endpoint, or tells that a registered endpoint registered again. */
  register(endpoint: HandlerEndpoint): void {
    const { name } = endpoint
    const isKnown = this.#endpoints.delete(endpoint)
    this.#endpoints.add(endpoint)
    this.#listeners.tell({ name, ...(isKnown && { reregistered: endpoint }) })
  }

  /** The registered endpoint with this uid. */
  get(uid: string): HandlerEndpoint | undefined {
    return [...this.#endpoints].find((endpoint) => endpoint.uid === uid)
  }

  drop(endpoint: HandlerEndpoint): void {
    if (this.#endpoints.delete(endpoint))
      this.#listeners.tell({ name: endpoint.name, dropped: endpoint })
  }

  useOf(endpoint: HandlerEndpoint): EndpointUse {
    return this.#useOf(endpoint)
  }

  /** @param useOf the use that discoveries make of an endpoint */
  judgeBy(useOf: (endpoint: HandlerEndpoint) => EndpointUse): void {
    this.#useOf = useOf
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
