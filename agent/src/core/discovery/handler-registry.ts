import { Listeners } from '@akrijs/runtime'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'

/**
 * The endpoints of a name changed, or an endpoint registered again: its open streams belong to a
 * dead process then.
 */
interface RegistryChange {
  readonly name: string
  readonly reregistered?: HandlerEndpoint | undefined
}

/** The endpoints of handlers, by the name of the handler. */
export class HandlerRegistry {
  /** In the order of registration. An endpoint that registers again is the last. */
  readonly #endpoints = new Set<HandlerEndpoint>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()
  #isUsed: (endpoint: HandlerEndpoint) => boolean = () => false

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

  /** Adds an endpoint, or replaces the endpoint with the same uid. */
  register(endpoint: HandlerEndpoint): void {
    const { name, uid } = endpoint
    const before = this.endpoints(name).find((other) => other.uid === uid)
    if (before !== undefined) this.#endpoints.delete(before)
    this.#endpoints.add(endpoint)
    this.#listeners.tell({ name, reregistered: before && endpoint })
  }

  /** Removes an endpoint, unless another endpoint has replaced it. */
  drop(endpoint: HandlerEndpoint): void {
    if (this.#endpoints.delete(endpoint)) this.#listeners.tell({ name: endpoint.name })
  }

  /** @returns the unused endpoint that registered first, of the endpoints that match */
  longestUnused(matches: (endpoint: HandlerEndpoint) => boolean): HandlerEndpoint | undefined {
    return [...this.#endpoints].find((endpoint) => matches(endpoint) && !this.#isUsed(endpoint))
  }

  /** @param isUsed whether a discovery uses the endpoint and can reach it */
  keepUsed(isUsed: (endpoint: HandlerEndpoint) => boolean): void {
    this.#isUsed = isUsed
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
