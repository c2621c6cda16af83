import { Listeners } from '@akrijs/runtime'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'

/** The endpoints of a name changed, or one of them registered again: its connections are those of a dead process. */
export type RegistryChange = { readonly name: string; readonly reregistered?: string }

/** Whether an endpoint is being asked, and can be reached. */
type EndpointUse = (endpoint: HandlerEndpoint) => boolean

/** Which handlers can be asked, by name. */
export class HandlerRegistry {
  /** In the order in which they have registered; whoever registers again is the last. */
  readonly #endpoints = new Set<HandlerEndpoint>()
  readonly #listeners = new Listeners<[change: RegistryChange]>()
  readonly #uses = new Set<EndpointUse>()

  /** The endpoints of a handler, in a stable order. */
  endpoints(name: string): readonly HandlerEndpoint[] {
    return [...this.#endpoints]
      .filter((one) => one.name === name)
      .sort((a, b) => (a.uid < b.uid ? -1 : 1))
  }

  get names(): readonly string[] {
    return [...new Set([...this.#endpoints].map(({ name }) => name))].sort()
  }

  get size(): number {
    return this.#endpoints.size
  }

  /** Adds an endpoint, or takes the place of the one with the same uid: whoever registers again is new. */
  register(endpoint: HandlerEndpoint): void {
    const { name, uid } = endpoint
    const before = this.endpoints(name).find((one) => one.uid === uid)
    if (before !== undefined) this.#endpoints.delete(before)
    this.#endpoints.add(endpoint)
    this.#listeners.tell(before === undefined ? { name } : { name, reregistered: uid })
  }

  /** Forgets an endpoint, if it is still this one. */
  drop(endpoint: HandlerEndpoint): void {
    if (this.#endpoints.delete(endpoint)) this.#listeners.tell({ name: endpoint.name })
  }

  /** Of those that match, the one that registered longest ago and is not in use. */
  longestUnused(matches: (endpoint: HandlerEndpoint) => boolean): HandlerEndpoint | undefined {
    const uses = [...this.#uses]
    return [...this.#endpoints].find((one) => matches(one) && !uses.some((isUsed) => isUsed(one)))
  }

  /** Keeps the endpoints of which this is true from {@link longestUnused}, until the signal is aborted. */
  keepUsed(isUsed: EndpointUse, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#uses.add(isUsed)
    signal.addEventListener('abort', () => this.#uses.delete(isUsed), { once: true })
  }

  onChange(listener: (change: RegistryChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
