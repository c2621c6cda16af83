import type { Socket } from 'node:net'
import { type Clock, runAfter } from '@akrijs/runtime'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'

/**
 * A connection is ended so many milliseconds after its endpoint was replaced: the handler then
 * registers again. A shorter time would let too many handlers replace each other without a pause.
 */
const RETURN_MS = 10_000

/**
 * The connections over which handlers have registered. A handler of the SDK keeps its connection
 * open, and registers again when the connection ends.
 */
export class HandlerConnections {
  readonly #clock: Clock
  readonly #stop = new AbortController()
  readonly #open = new Map<string, Socket>()
  readonly #peers = new WeakMap<HandlerEndpoint, string>()
  /** Connections that {@link endSoon} will end. */
  readonly #ending = new Set<string>()
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(connection: Socket): void {
    const peer = `handler ${++this.#count}`
    // A connection of a unix socket has no address. gRPC passes this address on with each call.
    Object.defineProperty(connection, 'remoteAddress', { value: peer })
    this.#open.set(peer, connection)
    connection.once('close', () => this.#open.delete(peer))
  }

  registered(endpoint: HandlerEndpoint, peer: string): void {
    this.#peers.set(endpoint, peer)
  }

  /** Ends the connection of an endpoint in {@link RETURN_MS}. */
  endSoon(endpoint: HandlerEndpoint): void {
    const peer = this.#peers.get(endpoint)
    if (peer === undefined || !this.#open.has(peer) || this.#ending.has(peer)) return
    this.#ending.add(peer)
    runAfter(this.#clock, RETURN_MS, this.#stop.signal, () => {
      this.#ending.delete(peer)
      this.#open.get(peer)?.destroy()
    })
  }

  close(): void {
    this.#stop.abort()
    for (const connection of this.#open.values()) connection.destroy()
  }
}
