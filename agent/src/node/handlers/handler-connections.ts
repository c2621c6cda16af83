import { type Clock, runAfter } from '@akrijs/runtime'
import type { BoundedConnection, ConnectionLimits } from '@akrijs/runtime/server'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'

/**
 * A connection is ended so many milliseconds after its endpoint was replaced: the handler then
 * registers again. A shorter time would let too many handlers replace each other without a pause.
 */
const RETURN_MS = 10_000

/**
 * The connections of handlers. A handler registers at once. Then it keeps its connection, or ends
 * it. The bound of endpoints also bounds the kept connections (stage `answering`), because an
 * endpoint keeps one. A connection that registered an endpoint before another one did (stage
 * `idle`) gives way like one that has not registered yet.
 */
export const HANDLER_CONNECTION_LIMITS: ConnectionLimits = {
  connections: 512,
  ofPeer: 512,
  newOfPeer: { burst: 512, refillMs: 10 },
  stageMs: { opened: 10_000, receiving: Infinity, answering: Infinity, idle: RETURN_MS },
}

/**
 * The connections over which handlers have registered. A handler of the SDK keeps its connection
 * open, and registers again when the connection ends.
 */
export class HandlerConnections {
  readonly #clock: Clock
  readonly #stop = new AbortController()
  readonly #open = new Map<string, BoundedConnection>()
  readonly #peers = new WeakMap<HandlerEndpoint, string>()
  /** The connection that registered each endpoint last. */
  readonly #latest = new Map<string, BoundedConnection>()
  /** Connections that {@link endSoon} will end. */
  readonly #ending = new Set<string>()
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(connection: BoundedConnection): void {
    const peer = `handler ${++this.#count}`
    // A connection of a unix socket has no address. gRPC passes this address on with each call.
    Object.defineProperty(connection.socket, 'remoteAddress', { value: peer })
    this.#open.set(peer, connection)
    connection.socket.once('close', () => {
      this.#open.delete(peer)
      for (const [uid, latest] of this.#latest) if (latest === connection) this.#latest.delete(uid)
    })
  }

  registered(endpoint: HandlerEndpoint, peer: string): void {
    this.#peers.set(endpoint, peer)
    const connection = this.#open.get(peer)
    if (connection === undefined) return
    const before = this.#latest.get(endpoint.uid)
    this.#latest.set(endpoint.uid, connection)
    if (before !== connection) before?.enter('idle')
    connection.enter('answering')
  }

  /** Ends the connection of an endpoint in {@link RETURN_MS}. */
  endSoon(endpoint: HandlerEndpoint): void {
    this.#latest.delete(endpoint.uid)
    const peer = this.#peers.get(endpoint)
    if (peer === undefined || !this.#open.has(peer) || this.#ending.has(peer)) return
    this.#ending.add(peer)
    runAfter(this.#clock, RETURN_MS, this.#stop.signal, () => {
      this.#ending.delete(peer)
      this.#open.get(peer)?.socket.destroy()
    })
  }

  close(): void {
    this.#stop.abort()
  }
}
