import { Listeners } from '@akrijs/runtime'
import type { HandlerEndpoint } from './handler-endpoint.js'

/** The endpoints of a name changed, or an endpoint of the name registered again. */
interface RegistryChange {
  readonly name: string
  readonly reregistered?: HandlerEndpoint
}

/** The endpoints of handlers, by the name of the handler. */
export class HandlerRegistry {
  readonly #endpoints = new Set<HandlerEndpoint>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()
  #checking: Promise<void> | undefined

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

  get all(): readonly HandlerEndpoint[] {
    return [...this.#endpoints]
  }

  /** Adds an endpoint, or tells that a registered endpoint registered again. */
  register(endpoint: HandlerEndpoint): void {
    const { name } = endpoint
    const isKnown = this.#endpoints.has(endpoint)
    this.#endpoints.add(endpoint)
    this.#listeners.tell({ name, ...(isKnown && { reregistered: endpoint }) })
  }

  /** The registered endpoint with this uid. */
  get(uid: string): HandlerEndpoint | undefined {
    return [...this.#endpoints].find((endpoint) => endpoint.uid === uid)
  }

  drop(endpoint: HandlerEndpoint): void {
    if (this.#endpoints.delete(endpoint)) this.#listeners.tell({ name: endpoint.name })
  }

  /** Drops the endpoints whose handlers have left. */
  dropAbsent(): Promise<void> {
    // One check at a time, whatever is registered meanwhile: it connects to all endpoints.
    this.#checking ??= this.#dropAbsent().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  async #dropAbsent(): Promise<void> {
    const checks = this.all.map(async (endpoint) => {
      if (await endpoint.hasLeft?.()) this.drop(endpoint)
    })
    await Promise.all(checks)
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
