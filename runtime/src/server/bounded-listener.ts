import { once } from 'node:events'
import net from 'node:net'
import type { Clock } from '../clock.js'
import type { Logger } from '../logger.js'
import { admission, type ConnectionStage, type PlaceLimits } from './connection-policy.js'

export interface ConnectionLimits extends PlaceLimits {
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

/**
 * A server socket with a bounded number of connections, in all and of each address. When it is
 * full, {@link admission} decides which connection gives way. So one peer cannot keep another peer
 * out. The rate of new connections has no bound: other programs can make the kubelet connect, and
 * its probes have the same address.
 */
export class BoundedListener {
  readonly #options: BoundedListenerOptions
  readonly #server: net.Server
  readonly #connections = new Set<BoundedConnection>()
  readonly #peers = new Map<string, Set<BoundedConnection>>()
  readonly #stop = new AbortController()
  /** Since the last line of the log. */
  #dropped = 0
  #refused = 0
  #loggedAt = -Infinity
  #isSweeping = false

  constructor(options: BoundedListenerOptions) {
    this.#options = options
    this.#server = net.createServer((socket) => this.#accept(socket))
  }

  /** @throws if the address is in use, or the program may not listen there */
  async listen(address: net.ListenOptions): Promise<void> {
    this.#server.listen(address)
    await once(this.#server, 'listening')
    const { log, name } = this.#options
    this.#server.on('error', (err) => log.error({ err, server: name }, 'connection not accepted'))
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
    const { clock, limits, onConnection } = this.#options
    const connection = new BoundedConnection(socket, clock)
    const own = this.#peers.get(connection.peer) ?? new Set()
    const others = [...this.#peers.values()].filter((peer) => peer !== own)
    const admitted = admission(own, others, limits, clock.monotonicMs())
    if (admitted === 'refused') {
      this.#refused++
      return void socket.destroy()
    }
    if (admitted !== 'room') this.#drop(admitted.drop)
    this.#connections.add(connection)
    // The drop may have removed the last connection of the peer.
    this.#peers.set(connection.peer, own.add(connection))
    socket.once('close', () => this.#remove(connection))
    // Without a listener, the reset of a connection would end the process.
    socket.on('error', () => socket.destroy())
    onConnection(connection)
    if (this.#isSweeping) return
    this.#isSweeping = true
    void this.#sweep()
  }

  #drop(connection: BoundedConnection): void {
    this.#dropped++
    this.#remove(connection)
    connection.socket.destroy()
  }

  #remove(connection: BoundedConnection): void {
    const { peer } = connection
    this.#connections.delete(connection)
    const own = this.#peers.get(peer)
    if (own?.delete(connection) && own.size === 0) this.#peers.delete(peer)
  }

  /** Ends what takes too long. A server without connections has nothing to do. */
  async #sweep(): Promise<void> {
    const { clock, limits, onLate } = this.#options
    while (this.#connections.size + this.#dropped + this.#refused > 0) {
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
      this.#report(now)
    }
    this.#isSweeping = false
  }

  #report(now: number): void {
    if (this.#dropped + this.#refused === 0 || now - this.#loggedAt < LOG_MS) return
    const [busiest] = [...this.#peers].sort(([, a], [, b]) => b.size - a.size)
    const { name, log, limits } = this.#options
    log.warn(
      {
        server: name,
        dropped: this.#dropped,
        refused: this.#refused,
        connections: this.#connections.size,
        limit: limits.connections,
        limitOfPeer: limits.ofPeer,
        ...(busiest && { busiestPeer: busiest[0], itsConnections: busiest[1].size }),
      },
      'connections over the limit dropped or refused',
    )
    this.#loggedAt = now
    this.#dropped = 0
    this.#refused = 0
  }
}

/** An IPv4 address has two forms on a socket that also serves IPv6. */
function peerOf(socket: net.Socket): string {
  return (socket.remoteAddress ?? '').replace(/^::ffff:/i, '')
}
