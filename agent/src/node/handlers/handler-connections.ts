import { setMaxListeners } from 'node:events'
import { type Clock, runAfter, TokenBucket } from '@akrijs/runtime'
import type { BoundedConnection, ConnectionLimits } from '@akrijs/runtime/server'

/**
 * The connections of an endpoint end so many milliseconds after the endpoint was dropped: its
 * handler then registers again. A shorter time would let too many handlers replace each other
 * without a pause.
 */
const RETURN_MS = 10_000

/**
 * The registrations of one connection. A program with several handlers registers all of them over
 * one connection.
 */
const REGISTRATIONS = { burst: 32, refillMs: 1000 }

/**
 * The connections of handlers. A handler registers at once. Then it keeps its connection, or ends
 * it. Each endpoint has one connection that does not give way (stage `answering`), so the bound of
 * endpoints bounds these connections too. When there are too many connections, those without a
 * registration give way first, and then those that registered an endpoint of another connection
 * (stage `idle`).
 */
export const HANDLER_CONNECTION_LIMITS: ConnectionLimits = {
  connections: 512,
  ofPeer: 512,
  stageMs: {
    opened: 10_000,
    receiving: Infinity,
    answering: Infinity,
    sending: Infinity,
    idle: Infinity,
  },
}

interface OpenConnection {
  readonly connection: BoundedConnection
  readonly budget: TokenBucket
}

/**
 * The connections over which handlers have registered. A handler of the SDK keeps its connection
 * open, and registers again when the connection ends.
 */
export class HandlerConnections {
  readonly #clock: Clock
  readonly #stop = new AbortController()
  readonly #open = new Map<string, OpenConnection>()
  /** The connections that registered an endpoint, by its uid. The first one does not give way. */
  readonly #byEndpoint = new Map<string, Set<BoundedConnection>>()
  /** The connections that {@link endSoon} will end. */
  readonly #ending = new Set<BoundedConnection>()
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
    // A listener for each connection that ends soon.
    setMaxListeners(0, this.#stop.signal)
  }

  add(connection: BoundedConnection): void {
    const peer = `handler ${++this.#count}`
    // A connection of a unix socket has no address. gRPC passes this address on with each call.
    Object.defineProperty(connection.socket, 'remoteAddress', { value: peer })
    const budget = new TokenBucket({ clock: this.#clock, ...REGISTRATIONS })
    this.#open.set(peer, { connection, budget })
    connection.socket.once('close', () => {
      this.#open.delete(peer)
      this.#ending.delete(connection)
      for (const [uid, connections] of this.#byEndpoint) {
        if (!connections.delete(connection)) continue
        const [next] = connections
        if (next === undefined) this.#byEndpoint.delete(uid)
        else this.#stage(next)
      }
    })
  }

  /** Whether the budget of the connection has a further registration, which this takes. */
  mayRegister(peer: string): boolean {
    return this.#open.get(peer)?.budget.take() === 0
  }

  registered(uid: string, peer: string): void {
    const connection = this.#open.get(peer)?.connection
    if (connection === undefined) return
    const connections = this.#byEndpoint.get(uid) ?? new Set()
    this.#byEndpoint.set(uid, connections.add(connection))
    this.#stage(connection)
  }

  /** Ends all connections that registered an endpoint, in {@link RETURN_MS}. */
  endSoon(uid: string): void {
    const connections = [...(this.#byEndpoint.get(uid) ?? [])]
    this.#byEndpoint.delete(uid)
    for (const connection of connections) {
      this.#stage(connection)
      if (this.#ending.has(connection)) continue
      this.#ending.add(connection)
      runAfter(this.#clock, RETURN_MS, this.#stop.signal, () => connection.socket.destroy())
    }
  }

  close(): void {
    this.#stop.abort()
  }

  #stage(connection: BoundedConnection): void {
    const isFirst = [...this.#byEndpoint.values()].some(([first]) => first === connection)
    connection.enter(isFirst ? 'answering' : 'idle')
  }
}
