import type net from 'node:net'
import type { Clock } from '../clock/clock.js'
import { TokenBucket } from '../clock/token-bucket.js'
import type { Logger } from '../program/logger.js'

export interface ServerContext {
  /** What the log calls the server. */
  readonly name: string
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Bounds what connections use in all. Beyond the limit, the peer that uses the most loses the
 * connection that uses the most, and the oldest of these: so a peer loses nothing while it uses
 * less than the limit divided by the number of peers. `server.maxConnections` would let slow
 * connections of one peer keep all others out: while 8,000 came, all probes were answered.
 */
export class ConnectionBound {
  readonly #limit: number
  readonly #context: ServerContext
  /** The oldest first. */
  readonly #uses = new Map<net.Socket, { readonly peer: string; readonly amount: number }>()
  readonly #lines: TokenBucket

  constructor(limit: number, context: ServerContext) {
    this.#limit = limit
    this.#context = context
    this.#lines = new TokenBucket({ clock: context.clock, burst: 1, refillMs: 60_000 })
  }

  /** @param amount 0: the connection uses nothing any more */
  set(socket: net.Socket, amount: number): void {
    if (amount === 0 || socket.destroyed) return void this.#uses.delete(socket)
    // An IPv4 address has two forms on a socket that also serves IPv6.
    const peer = (socket.remoteAddress ?? '').replace(/^::ffff:/i, '')
    this.#uses.set(socket, { peer, amount })
    this.#check()
  }

  dropAll(): void {
    for (const socket of this.#uses.keys()) socket.destroy()
  }

  #check(): void {
    const ofPeers = new Map<string, number>()
    for (const { peer, amount } of this.#uses.values())
      ofPeers.set(peer, (ofPeers.get(peer) ?? 0) + amount)
    const sum = [...ofPeers.values()].reduce((all, amount) => all + amount, 0)
    if (sum <= this.#limit) return
    const [peer] = [...ofPeers].reduce((most, each) => (each[1] > most[1] ? each : most))
    const [socket] = [...this.#uses]
      .filter(([, use]) => use.peer === peer)
      .reduce((most, each) => (each[1].amount > most[1].amount ? each : most))
    this.set(socket, 0)
    socket.destroy()
    const { name, log } = this.#context
    if (this.#lines.take() === 0)
      log.warn({ server: name, peer, limit: this.#limit }, 'connection over the limit dropped')
    this.#check()
  }
}
