import { setMaxListeners } from 'node:events'
import { AkriError, type Clock, type Logger, withTimeLimit } from '@akrijs/sdk'
import { inParallel, RefreshSchedule } from '@akrijs/sdk/network'
import { type EndpointSummary, summarize } from './endpoint-summary.js'
import type { OpcuaServer } from './opcua-server.js'
import type { Reach } from './reach.js'
import { CALL_MS, type CallTimeouts, callService, getEndpoints } from './ua-tcp/index.js'

/**
 * A known server is read again after so many milliseconds, and after a failure sooner: few of the
 * servers in each round, so that all rounds cost the same.
 */
const REFRESH_MS = 5 * 60_000
const RETRY_MS = 10_000
const REFRESHES_PER_ROUND = 10
/** An answer of this age proves that the server is running, in milliseconds. */
const RECENT_MS = 60_000
/** One slow server must not delay all others. */
const MAX_PARALLEL_CALLS = 16

interface ServerDescriptionsOptions {
  readonly reach: Reach
  readonly clock: Clock
  readonly log: Logger
  readonly timeouts?: CallTimeouts | undefined
}

/** The endpoints that servers report by GetEndpoints, read again from time to time. */
export class ServerDescriptions {
  readonly #options: ServerDescriptionsOptions
  readonly #roundMs: number
  readonly #schedule: RefreshSchedule<EndpointSummary>
  /** Of the servers whose last attempt failed. */
  readonly #failures = new Map<string, unknown>()

  /**
   * @param limits.roundMs how long a round waits for answers, in milliseconds @default the limit of
   * a call
   */
  constructor(
    options: ServerDescriptionsOptions,
    { roundMs = options.timeouts?.totalMs ?? CALL_MS }: { readonly roundMs?: number } = {},
  ) {
    this.#options = options
    this.#roundMs = roundMs
    this.#schedule = new RefreshSchedule({
      clock: options.clock,
      refreshMs: REFRESH_MS,
      retryMs: RETRY_MS,
      maxRefreshes: REFRESHES_PER_ROUND,
    })
  }

  /** The endpoints of a server; undefined until the server answered. */
  of({ discoveryUrl }: OpcuaServer): EndpointSummary | undefined {
    return this.#schedule.get(discoveryUrl)?.value
  }

  /** Why the last attempt to read a server failed. */
  failureOf({ discoveryUrl }: OpcuaServer): unknown {
    return this.#failures.get(discoveryUrl)
  }

  /** Reads the new servers and some of the known ones. Forgets all other servers. */
  async update(servers: readonly OpcuaServer[], signal: AbortSignal): Promise<void> {
    const due = this.#schedule.takeDue(servers, urlOf)
    for (const url of this.#failures.keys())
      if (this.#schedule.get(url) === undefined) this.#failures.delete(url)
    await this.#readAll(due, signal)
  }

  /** The URLs of the servers that answered within the last minute, or answer now. */
  async recentlyAnswered(
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const since = this.#options.clock.monotonicMs() - RECENT_MS
    const recent = new Set(servers.filter((server) => this.#answeredAt(server) > since))
    const others = servers.filter((server) => !recent.has(server))
    return new Set([...[...recent].map(urlOf), ...(await this.#readAll(others, signal))])
  }

  /**
   * The URLs of the servers whose last attempt was answered. Reads the servers that failed or did
   * not answer recently, and some of the others.
   */
  async responsive(
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const since = this.#options.clock.monotonicMs() - RECENT_MS
    const isResponsive = ({ discoveryUrl }: OpcuaServer) =>
      this.#schedule.get(discoveryUrl)?.failures === 0
    const due = [...servers]
      .sort((a, b) => this.#answeredAt(a) - this.#answeredAt(b))
      .filter(
        (server, index) =>
          index < REFRESHES_PER_ROUND || !isResponsive(server) || this.#answeredAt(server) <= since,
      )
    // Servers that answered recently come first: a stopped server costs the round a full timeout.
    const answered = await this.#readAll(due.reverse(), signal)
    return new Set([...answered, ...servers.filter(isResponsive).map(urlOf)])
  }

  #answeredAt({ discoveryUrl }: OpcuaServer): number {
    return this.#schedule.get(discoveryUrl)?.answeredAt ?? Number.NEGATIVE_INFINITY
  }

  /**
   * The URLs of the servers that answer now. A parallel {@link update} can forget the answers: a
   * round of a discovery URL can continue after the list that it misses.
   */
  async #readAll(
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    signal.throwIfAborted()
    const answered = new Set<string>()
    if (servers.length === 0) return answered
    await withTimeLimit(this.#roundMs, signal, async (round) => {
      // Each parallel call adds a listener.
      setMaxListeners(0, round)
      await inParallel(servers, MAX_PARALLEL_CALLS, async (server) => {
        if (!round.aborted && (await this.#read(server, round))) answered.add(urlOf(server))
      })
    })
    signal.throwIfAborted()
    return answered
  }

  /** @returns whether the server answered */
  async #read(server: OpcuaServer, signal: AbortSignal): Promise<boolean> {
    const { discoveryUrl } = server
    const { log, reach, timeouts } = this.#options
    try {
      const target = await reach.targetOf(server)
      if (target === undefined) throw await reach.problemOf(server)
      const endpoints = await callService(getEndpoints, target, { ...timeouts, signal })
      this.#schedule.succeed(discoveryUrl, summarize(endpoints))
      this.#failures.delete(discoveryUrl)
      return true
    } catch (error) {
      if (error !== signal.reason && !AkriError.is(error)) throw error
      this.#failures.set(discoveryUrl, error)
      if (this.#schedule.fail(discoveryUrl) === 1)
        log.info({ discoveryUrl, err: error }, 'server endpoints not read')
      return false
    }
  }
}

function urlOf({ discoveryUrl }: OpcuaServer): string {
  return discoveryUrl
}
