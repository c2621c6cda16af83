import { setMaxListeners } from 'node:events'
import { AkriError, type Clock, type Logger } from '@akrijs/sdk'
import { inParallel } from '@akrijs/sdk/network'
import { type EndpointSummary, summarize } from './endpoint-summary.js'
import { OpcuaTimeoutError, OpcuaUnreachableError } from './errors.js'
import type { OpcuaServer } from './opcua-server.js'
import type { Reach } from './reach.js'
import { type CallOptions, callService } from './ua-tcp/client.js'
import { getEndpoints } from './ua-tcp/discovery-services.js'

/** How long a description is good for, in milliseconds. */
const REFRESH_MS = 5 * 60_000
/** How many known servers are asked again in one round, so that a round costs the same however many are known. */
const AGAIN_PER_ROUND = 10
/** How long a round waits for descriptions, in milliseconds; who is slower is asked again later. */
const ROUND_MS = 5000
/** How soon a server that does not answer is asked again, twice as long each time. */
const RETRY = { initialMs: 10_000, ceilingMs: REFRESH_MS }
/** Who has answered so lately is there. */
const HEARD_MS = 60_000
const AT_MOST = 16

export interface ServerDescriptionsOptions {
  readonly reach: Reach
  readonly clock: Clock
  readonly log: Logger
  readonly timeouts?: Pick<CallOptions, 'connectMs' | 'totalMs'> | undefined
  /** How long a round waits at most, in milliseconds. @default 5000 */
  readonly roundMs?: number
}

interface Entry {
  endpoints?: EndpointSummary
  heardAt: number
  dueAt: number
  failures: number
}

/** What servers say of themselves, by GetEndpoints: asked for once, and now and then again. */
export class ServerDescriptions {
  readonly #options: ServerDescriptionsOptions
  readonly #entries = new Map<string, Entry>()

  constructor(options: ServerDescriptionsOptions) {
    this.#options = options
  }

  /** What is known of the endpoints of a server; undefined while that is nothing. */
  of({ discoveryUrl }: OpcuaServer): EndpointSummary | undefined {
    return this.#entries.get(discoveryUrl)?.endpoints
  }

  /** Asks those of which nothing is known yet, and some of the others. Forgets who is not among them any more. */
  async update(servers: readonly OpcuaServer[], signal: AbortSignal): Promise<void> {
    const urls = new Set(servers.map(({ discoveryUrl }) => discoveryUrl))
    for (const url of this.#entries.keys()) if (!urls.has(url)) this.#entries.delete(url)
    const now = this.#options.clock.monotonicMs()
    const known = servers.flatMap((server) => {
      const dueAt = this.#entries.get(server.discoveryUrl)?.dueAt
      return dueAt === undefined ? [] : { server, dueAt }
    })
    const fresh = servers.filter(({ discoveryUrl }) => !this.#entries.has(discoveryUrl))
    // One that is further ahead than anything is put off is of a clock that was put back since.
    const due = known
      .filter(({ dueAt }) => dueAt <= now || dueAt > now + REFRESH_MS)
      .sort((a, b) => a.dueAt - b.dueAt)
    await this.#askAll(
      [...fresh, ...due.slice(0, AGAIN_PER_ROUND).map(({ server }) => server)],
      signal,
    )
  }

  /** The URLs of those that have answered lately, or answer now. */
  async recentlyAnswered(
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const since = this.#options.clock.monotonicMs() - HEARD_MS
    const isHeard = ({ discoveryUrl }: OpcuaServer) =>
      (this.#entries.get(discoveryUrl)?.heardAt ?? since) > since
    await this.#askAll(
      servers.filter((server) => !isHeard(server)),
      signal,
    )
    return new Set(servers.filter(isHeard).map(({ discoveryUrl }) => discoveryUrl))
  }

  /**
   * The URLs of those that answer, or have answered when they were last asked. Who has failed then, or was not heard of lately, is
   * asked, and so are some of the others.
   */
  async responsive(
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const since = this.#options.clock.monotonicMs() - HEARD_MS
    const isAnswering = ({ discoveryUrl }: OpcuaServer) =>
      this.#entries.get(discoveryUrl)?.failures === 0
    const heardAtOf = ({ discoveryUrl }: OpcuaServer) =>
      this.#entries.get(discoveryUrl)?.heardAt ?? Number.NEGATIVE_INFINITY
    const due = [...servers]
      .sort((a, b) => heardAtOf(a) - heardAtOf(b))
      .filter(
        (server, index) =>
          index < AGAIN_PER_ROUND || !isAnswering(server) || heardAtOf(server) <= since,
      )
    // Those that are gone take long, and are not to take the turn of those that are there.
    await this.#askAll(due.reverse(), signal)
    return new Set(servers.filter(isAnswering).map(({ discoveryUrl }) => discoveryUrl))
  }

  async #askAll(servers: readonly OpcuaServer[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (servers.length === 0) return
    const round = new AbortController()
    // As many listen as are asked at a time.
    setMaxListeners(0, round.signal)
    const end = () => round.abort(new OpcuaTimeoutError('the time for describing servers is over'))
    const timer = setTimeout(end, this.#options.roundMs ?? ROUND_MS)
    signal.addEventListener('abort', end, { once: true })
    try {
      await inParallel(servers, AT_MOST, async (server) => {
        if (!round.signal.aborted) await this.#ask(server, round.signal)
      })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
    }
    signal.throwIfAborted()
  }

  async #ask(server: OpcuaServer, signal: AbortSignal): Promise<void> {
    const { discoveryUrl } = server
    const { clock, log, reach, timeouts } = this.#options
    const entry = this.#entries.get(discoveryUrl) ?? {
      heardAt: Number.NEGATIVE_INFINITY,
      dueAt: 0,
      failures: 0,
    }
    this.#entries.set(discoveryUrl, entry)
    try {
      const target = await reach.targetOf(server)
      if (target === undefined) {
        throw new OpcuaUnreachableError(
          'it is in no network where servers are called, or its host name does not resolve',
        )
      }
      entry.endpoints = summarize(await callService(getEndpoints, target, { ...timeouts, signal }))
      entry.heardAt = clock.monotonicMs()
      entry.dueAt = entry.heardAt + REFRESH_MS
      entry.failures = 0
    } catch (error) {
      if (!AkriError.is(error)) throw error
      entry.dueAt =
        clock.monotonicMs() + Math.min(RETRY.ceilingMs, RETRY.initialMs * 2 ** entry.failures)
      entry.failures++
      if (entry.failures === 1)
        log.info(
          { discoveryUrl, err: error },
          'server was not asked for its endpoints, or did not answer',
        )
    }
  }
}
