import { Listeners } from '@akrijs/runtime'
import type { HandlerEndpoint } from './handler-endpoint.js'

/** The endpoints of a name changed, or an endpoint of the name registered again. */
interface RegistryChange {
  readonly name: string
  readonly reregistered?: HandlerEndpoint
}

/** The endpoints of handlers, by the name of the handler. */
export class HandlerRegistry {
  readonly #endpoints = new Map<string, HandlerEndpoint>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()
  #checking: Promise<unknown> | undefined

  /** The endpoints of a handler, in a stable order. */
  endpoints(name: string): readonly HandlerEndpoint[] {
    const endpoints = this.all.filter((endpoint) => endpoint.name === name)
    return endpoints.sort((a, b) => (a.uid < b.uid ? -1 : 1))
  }

  get names(): readonly string[] {
    return [...new Set(this.all.map(({ name }) => name))].sort()
  }

  get size(): number {
    return this.#endpoints.size
  }

  get all(): HandlerEndpoint[] {
    return [...this.#endpoints.values()]
  }

  get(uid: string): HandlerEndpoint | undefined {
    return this.#endpoints.get(uid)
  }

  /** Adds an endpoint, or tells that a registered endpoint registered again. */
  register(endpoint: HandlerEndpoint): void {
    const { name, uid } = endpoint
    const isKnown = this.#endpoints.get(uid) === endpoint
    this.#endpoints.set(uid, endpoint)
    this.#listeners.tell({ name, ...(isKnown && { reregistered: endpoint }) })
  }

  drop(endpoint: HandlerEndpoint): void {
    const { name, uid } = endpoint
    if (this.#endpoints.get(uid) !== endpoint) return
    this.#endpoints.delete(uid)
    this.#listeners.tell({ name })
  }

  /** Drops the endpoints whose handlers have left. */
  async dropAbsent(): Promise<void> {
    const drop = async (endpoint: HandlerEndpoint) => {
      if (await endpoint.hasLeft?.()) this.drop(endpoint)
    }
    // One check at a time, whatever is registered meanwhile: it connects to all endpoints.
    this.#checking ??= Promise.all(this.all.map(drop)).finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
