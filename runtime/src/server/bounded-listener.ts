import { once } from 'node:events'
import net from 'node:net'
import type { Clock } from '../clock.js'
import type { Logger } from '../logger.js'
import { TokenBucket } from '../token-bucket.js'

/** What a connection does at present. */
export type ConnectionStage =
  /** It has sent no complete request yet; a TLS handshake is a part of this stage. */
  | 'opened'
  /** A request has begun, and has not ended. */
  | 'receiving'
  /** The server works on the answer, or sends it. */
  | 'answering'
  /** The server has answered, and the connection waits for the next request. */
  | 'idle'
  /** The server has refused, and the client may still read the refusal. */
  | 'ending'

export interface ConnectionLimits {
  /** The most connections. */
  readonly connections: number
  /** The most connections of one address. All peers of a unix socket are one address. */
  readonly ofPeer: number
  /** The new connections of one address: so many at once, and then another one in `refillMs`. */
  readonly newOfPeer: { readonly burst: number; readonly refillMs: number }
  /**
   * The longest time in each stage, in milliseconds. Bytes that arrive do not prolong it. Infinity:
   * no limit.
   */
  readonly stageMs: Readonly<Record<Exclude<ConnectionStage, 'ending'>, number>>
}

interface BoundedListenerOptions {
  /** What the log calls the server, such as `webhook`. */
  readonly name: string
  readonly limits: ConnectionLimits
  readonly clock: Clock
  readonly log: Logger
  onConnection(connection: BoundedConnection): void
  /** A stage took too long. @default the connection is destroyed */
  onLate?(connection: BoundedConnection): void
}

/** The interval in which times are checked, in milliseconds. */
const SWEEP_MS = 1000
/** The time in which a client reads a refusal, in milliseconds. */
const ENDING_MS = 2000
/**
 * A connection this young, in milliseconds, is not dropped while there is an idle connection of the
 * same peer: its first request is probably on its way.
 */
const YOUNG_MS = 1000
/** The most addresses without a connection whose budgets are kept. */
const MAX_PEERS = 4096
/** Dropped connections are logged at most once in this time, in milliseconds. */
const LOG_MS = 60_000

/** A connection of a {@link BoundedListener}. */
export class BoundedConnection {
  readonly socket: net.Socket
  /** The address of the client; empty for a unix socket. */
  readonly peer: string
  readonly #clock: Clock
  #stage: ConnectionStage = 'opened'
  #since: number
  #bytes = 0

  constructor(socket: net.Socket, clock: Clock) {
    this.socket = socket
    this.peer = peerOf(socket)
    this.#clock = clock
    this.#since = clock.monotonicMs()
  }

  get stage(): ConnectionStage {
    return this.#stage
  }

  /** The start of the stage, in milliseconds of the monotonic clock. */
  get since(): number {
    return this.#since
  }

  /** The same stage again begins no new time. */
  enter(stage: ConnectionStage): void {
    if (this.#stage === stage) return
    this.#stage = stage
    this.#since = this.#clock.monotonicMs()
    this.#bytes = this.socket.bytesRead
  }

  /** Whether bytes have arrived in this stage. */
  get hasReceived(): boolean {
    return this.socket.bytesRead > this.#bytes
  }
}

interface Peer {
  readonly budget: TokenBucket
  readonly connections: Set<BoundedConnection>
  seenAt: number
}

/**
 * A server socket with a bounded number of connections, in all and of each address. When it is
 * full, the peer with the most connections loses the oldest connection that is not at work, and the
 * new connection is accepted. So one peer cannot keep another peer out.
 */
export class BoundedListener {
  readonly #options: BoundedListenerOptions
  readonly #server: net.Server
  readonly #connections = new Set<BoundedConnection>()
  readonly #peers = new Map<string, Peer>()
  readonly #stop = new AbortController()
  /** Since the last line of the log. */
  #dropped = 0
  #refused = 0
  #loggedAt = -Infinity

  constructor(options: BoundedListenerOptions) {
    this.#options = options
    this.#server = net.createServer((socket) => this.#accept(socket))
    this.#server.on('error', (err) =>
      options.log.error({ err, server: options.name }, 'connection not accepted'),
    )
  }

  /** @throws if the address is in use, or the program may not listen there */
  async listen(address: net.ListenOptions): Promise<void> {
    this.#server.listen(address)
    await once(this.#server, 'listening')
    void this.#sweep()
  }

  /** 0 for a unix socket. */
  get port(): number {
    const address = this.#server.address()
    return typeof address === 'object' && address !== null ? address.port : 0
  }

  get connections(): ReadonlySet<BoundedConnection> {
    return this.#connections
  }

  /** Accepts no more connections. */
  stop(): void {
    this.#server.close()
  }

  /** Accepts no more connections, and ends all. */
  async close(): Promise<void> {
    this.#stop.abort()
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const { socket } of this.#connections) socket.destroy()
    await closed
  }

  #accept(socket: net.Socket): void {
    const { clock, onConnection } = this.#options
    const connection = new BoundedConnection(socket, clock)
    const peer = this.#peerOf(connection)
    if (peer.budget.take() > 0 || !this.#makeRoom(peer)) {
      this.#refused++
      socket.destroy()
      return
    }
    this.#connections.add(connection)
    peer.connections.add(connection)
    socket.once('close', () => this.#remove(connection))
    // Without a listener, the reset of a connection would end the process.
    socket.on('error', () => socket.destroy())
    onConnection(connection)
  }

  #peerOf({ peer: address, since }: BoundedConnection): Peer {
    const peer = this.#peers.get(address) ?? {
      budget: new TokenBucket({ clock: this.#options.clock, ...this.#options.limits.newOfPeer }),
      connections: new Set<BoundedConnection>(),
      seenAt: since,
    }
    peer.seenAt = since
    // The peers that came last are at the end.
    this.#peers.delete(address)
    this.#peers.set(address, peer)
    if (this.#peers.size > MAX_PEERS) this.#forgetPeer()
    return peer
  }

  #forgetPeer(): void {
    for (const [address, { connections }] of this.#peers)
      if (connections.size === 0) return void this.#peers.delete(address)
  }

  #remove(connection: BoundedConnection): void {
    this.#connections.delete(connection)
    this.#peers.get(connection.peer)?.connections.delete(connection)
  }

  /** @returns whether another connection of the peer fits */
  #makeRoom({ connections }: Peer): boolean {
    const { limits } = this.#options
    if (connections.size >= limits.ofPeer) return this.#dropOneOf(connections)
    if (this.#connections.size < limits.connections) return true
    return [...this.#peers.values()]
      .sort((a, b) => b.connections.size - a.connections.size)
      .some((peer) => this.#dropOneOf(peer.connections))
  }

  #dropOneOf(connections: ReadonlySet<BoundedConnection>): boolean {
    const now = this.#options.clock.monotonicMs()
    let victim: { readonly rank: number; readonly connection: BoundedConnection } | undefined
    for (const connection of connections) {
      const rank = rankOf(connection, now)
      if (rank === undefined) continue
      if (
        victim === undefined ||
        rank < victim.rank ||
        (rank === victim.rank && connection.since < victim.connection.since)
      )
        victim = { rank, connection }
    }
    if (victim === undefined) return false
    this.#dropped++
    this.#remove(victim.connection)
    victim.connection.socket.destroy()
    return true
  }

  /** Ends what takes too long. */
  async #sweep(): Promise<void> {
    const { clock, limits, onLate } = this.#options
    for (;;) {
      await clock.sleep(SWEEP_MS, this.#stop.signal).catch(() => undefined)
      if (this.#stop.signal.aborted) return
      const now = clock.monotonicMs()
      for (const connection of this.#connections) {
        // The headers of another request, which may come slowly.
        if (
          connection.stage === 'idle' &&
          limits.stageMs.receiving < Infinity &&
          connection.hasReceived
        )
          connection.enter('receiving')
        const { stage } = connection
        const limit = stage === 'ending' ? ENDING_MS : limits.stageMs[stage]
        if (now - connection.since < limit) continue
        if (onLate === undefined || stage === 'ending') connection.socket.destroy()
        else onLate(connection)
      }
      this.#forgetPeers(now)
      this.#report(now)
    }
  }

  /** Forgets peers whose budgets are full again. */
  #forgetPeers(now: number): void {
    const { burst, refillMs } = this.#options.limits.newOfPeer
    for (const [address, { connections, seenAt }] of this.#peers)
      if (connections.size === 0 && now - seenAt >= burst * refillMs) this.#peers.delete(address)
  }

  #report(now: number): void {
    if (this.#dropped + this.#refused === 0 || now - this.#loggedAt < LOG_MS) return
    const [busiest] = [...this.#peers].sort(
      ([, a], [, b]) => b.connections.size - a.connections.size,
    )
    const { name, log, limits } = this.#options
    log.warn(
      {
        server: name,
        dropped: this.#dropped,
        refused: this.#refused,
        connections: this.#connections.size,
        limit: limits.connections,
        limitOfPeer: limits.ofPeer,
        ...(busiest && { busiestPeer: busiest[0], itsConnections: busiest[1].connections.size }),
      },
      'connections over the limit dropped or refused',
    )
    this.#loggedAt = now
    this.#dropped = 0
    this.#refused = 0
  }
}

/** The connection with the lowest rank gives way; undefined if it does not. */
function rankOf({ stage, since }: BoundedConnection, now: number): number | undefined {
  if (stage === 'ending') return 0
  if (stage === 'opened') return now - since < YOUNG_MS ? 3 : 1
  if (stage === 'idle') return 2
  return stage === 'receiving' ? 4 : undefined
}

/** An IPv4 address has two forms on a socket that also serves IPv6. */
function peerOf(socket: net.Socket): string {
  return (socket.remoteAddress ?? '').replace(/^::ffff:/i, '')
}
