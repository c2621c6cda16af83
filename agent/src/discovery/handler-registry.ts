import { Listeners } from '../listeners.js'
import type { HandlerEndpoint } from '../ports/handler-endpoint.js'

/** The endpoints of a name changed, or one of them registered again: its connections are those of a dead process. */
export type RegistryChange = { readonly name: string; readonly reregistered?: string }

/** Which handlers can be asked, by name. */
export class HandlerRegistry {
  readonly #endpoints = new Map<string, Map<string, HandlerEndpoint>>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()

  /** The endpoints of a handler, in a stable order. */
  endpoints(name: string): readonly HandlerEndpoint[] {
    const all = [...(this.#endpoints.get(name)?.values() ?? [])]
    return all.sort((a, b) => (a.uid < b.uid ? -1 : 1))
  }

  get names(): readonly string[] {
    return [...this.#endpoints.keys()].sort()
  }

  get size(): number {
    return [...this.#endpoints.values()].reduce((sum, ofName) => sum + ofName.size, 0)
  }

  /** Adds an endpoint, or takes the place of the one with the same uid: whoever registers again is new. */
  register(endpoint: HandlerEndpoint): void {
    const ofName = this.#endpoints.get(endpoint.name) ?? new Map<string, HandlerEndpoint>()
    const again = ofName.has(endpoint.uid)
    this.#endpoints.set(endpoint.name, ofName.set(endpoint.uid, endpoint))
    this.#listeners.tell(again ? { name: endpoint.name, reregistered: endpoint.uid } : { name: endpoint.name })
  }

  /** Forgets an endpoint, if it is still this one. */
  drop(endpoint: HandlerEndpoint): void {
    const ofName = this.#endpoints.get(endpoint.name)
    if (ofName?.get(endpoint.uid) !== endpoint) return
    ofName.delete(endpoint.uid)
    if (ofName.size === 0) this.#endpoints.delete(endpoint.name)
    this.#listeners.tell({ name: endpoint.name })
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
