import { AkriError, type Clock, type Logger, messageOf, Presence } from '@akrijs/sdk'
import { HostNameError, type HostNames } from '@akrijs/sdk/network'
import { parseEndpointUrl } from '../endpoint-url.js'
import { OpcuaServiceError, OpcuaUnreachableError } from '../errors.js'
import type { OpcuaServer } from '../opcua-server.js'
import { addressesIfAny } from '../reach.js'
import { type CallOptions, callService, type Target } from '../ua-tcp/client.js'
import {
  type ApplicationDescription,
  findServers,
  findServersAsRegistered,
  findServersOnNetwork,
} from '../ua-tcp/discovery-services.js'
import { isUnsupported } from '../ua-tcp/status-code.js'
import {
  type Asked,
  announcedServers,
  echoesItsUrl,
  hostsOf,
  isDiscoveryServer,
  listedServers,
} from './server-list.js'

/** How many rounds in a row a URL may be silent before its servers are gone, unless they answer for themselves. */
const ROUNDS_OF_SILENCE = 2
/** One that is silent for longer is asked in every so many rounds, at last. */
const MAX_ROUNDS_TO_WAIT = 3
/**
 * How long a server stays that answers but is listed no more, in milliseconds. Who is registered does so again within ten minutes
 * (OPC 10000-4, 5.5.5): in twice that time all are back that a discovery server has lost because it was restarted.
 */
const UNLISTED_MS = 20 * 60_000

export interface DiscoveryUrlOptions {
  readonly hostNames: HostNames
  readonly log: Logger
  /** The URLs of those servers that have answered themselves lately, or answer now. */
  readonly recentlyAnswered: (
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ) => Promise<ReadonlySet<string>>
  /** The URLs of those servers that have not failed to answer themselves when they were last asked, which may be now. */
  readonly responsive: (
    servers: readonly OpcuaServer[],
    signal: AbortSignal,
  ) => Promise<ReadonlySet<string>>
  readonly clock: Clock
  readonly timeouts?: Pick<CallOptions, 'connectMs' | 'totalMs'>
}

interface Listed {
  readonly id: string
  readonly server: OpcuaServer
  /** Since when the answers of its discovery server leave it out. */
  readonly unlistedAt?: number
}

interface Answer {
  readonly servers: readonly OpcuaServer[]
  readonly isOfDiscoveryServer: boolean
}

/**
 * One URL of the details, and what is known of the servers behind it. What an answer leaves out is gone, unless a discovery server
 * leaves out who answers himself: it may have been restarted. A URL that does not answer says nothing about its servers: they stay
 * for a few rounds, and for as long as they answer themselves.
 */
export class DiscoveryUrl {
  readonly #discoveryUrl: string
  readonly #options: DiscoveryUrlOptions
  readonly #log: Logger
  readonly #presence = new Presence<Listed>({ missesAllowed: ROUNDS_OF_SILENCE })
  #known: readonly Listed[] = []
  #failures = 0
  #roundsToWait = 0
  #problem: string | undefined
  #withoutMulticast = false
  /** See {@link echoesItsUrl}. */
  #echoes = false
  #answered = false

  constructor(discoveryUrl: string, options: DiscoveryUrlOptions) {
    this.#discoveryUrl = discoveryUrl
    this.#options = options
    this.#log = options.log.child({ discoveryUrl })
  }

  /** Whether what it vouches for is worth anything: it has answered, or had its chances. */
  get isSettled(): boolean {
    return this.#answered || this.#failures > ROUNDS_OF_SILENCE
  }

  get servers(): readonly OpcuaServer[] {
    return this.#known.map(({ server }) => server)
  }

  /** Asks, or waits where it has failed before. Rejects only when the signal is aborted. */
  async round(signal: AbortSignal): Promise<void> {
    this.#roundsToWait--
    const answer = this.#roundsToWait > 0 ? undefined : await this.#list(signal)
    if (answer === undefined) {
      this.#known = this.#presence.round(await this.#stillHeard(signal))
      return
    }
    const listed: Listed[] = answer.servers.map((server) => ({ id: server.discoveryUrl, server }))
    const there = answer.isOfDiscoveryServer
      ? [...listed, ...(await this.#unlisted(listed, signal))]
      : listed
    const ids = new Set(there.map(({ id }) => id))
    for (const { id } of this.#known) if (!ids.has(id)) this.#presence.forget(id)
    this.#known = this.#presence.round(there)
  }

  async #list(signal: AbortSignal): Promise<Answer | undefined> {
    try {
      const answer = await this.#ask(signal)
      if (this.#problem !== undefined) this.#log.info({}, 'discovery URL answers again')
      this.#problem = undefined
      this.#failures = 0
      this.#roundsToWait = 0
      this.#answered = true
      return answer
    } catch (error) {
      signal.throwIfAborted()
      if (!AkriError.is(error)) throw error
      this.#failures++
      this.#roundsToWait = Math.min(
        MAX_ROUNDS_TO_WAIT,
        Math.max(1, this.#failures - ROUNDS_OF_SILENCE),
      )
      // It may be another one when it answers again.
      this.#withoutMulticast = false
      this.#echoes = false
      const problem = messageOf(error)
      // Once for each way of failing, not once for each round.
      if (error.code !== this.#problem)
        this.#log.warn({ code: error.code, error: problem }, 'discovery URL fails')
      this.#problem = error.code
      return undefined
    }
  }

  async #ask(signal: AbortSignal): Promise<Answer> {
    const { hostNames, timeouts } = this.#options
    const url = parseEndpointUrl(this.#discoveryUrl)
    const addresses = await hostNames.addressesOf(url.host).catch((error: unknown) => {
      throw error instanceof HostNameError
        ? new OpcuaUnreachableError(error.message, { cause: error })
        : error
    })
    const asked: Asked = { discoveryUrl: this.#discoveryUrl, url, addresses }
    const target: Target = { addresses, port: url.port, endpointUrl: this.#discoveryUrl }
    const applications = await this.#applications(asked, target, { ...timeouts, signal })
    const listed = await this.#listed(applications, asked)
    const isOfDiscoveryServer = isDiscoveryServer(applications)
    const announced = isOfDiscoveryServer ? await this.#announced(asked, target, signal) : []
    return { servers: distinct([...listed, ...announced]), isOfDiscoveryServer }
  }

  async #applications(
    asked: Asked,
    target: Target,
    options: CallOptions,
  ): Promise<readonly ApplicationDescription[]> {
    if (!this.#echoes) {
      const applications = await callService(findServers, target, options)
      if (!echoesItsUrl(applications, asked)) return applications
      this.#echoes = true
    }
    return callService(findServersAsRegistered, target, options)
  }

  async #listed(
    applications: readonly ApplicationDescription[],
    asked: Asked,
  ): Promise<OpcuaServer[]> {
    const { hostNames } = this.#options
    const resolving = new Set<string>()
    const look = async (host: string) => {
      if ((await addressesIfAny(hostNames, host)).length > 0) resolving.add(host)
    }
    await Promise.all(hostsOf(applications).map(look))
    return listedServers(applications, asked, (host) => resolving.has(host))
  }

  /** What the discovery server has heard by mDNS. That it knows no such service is no failure, and is not asked again. */
  async #announced(asked: Asked, target: Target, signal: AbortSignal): Promise<OpcuaServer[]> {
    if (this.#withoutMulticast) return []
    try {
      const records = await callService(findServersOnNetwork, target, {
        ...this.#options.timeouts,
        signal,
      })
      return announcedServers(records, asked)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof OpcuaServiceError)) throw error
      this.#withoutMulticast = isUnsupported(error.statusCode)
      this.#log.debug({ err: error }, 'no FindServersOnNetwork')
      return []
    }
  }

  /** Those that are listed no more, and answer themselves. */
  async #unlisted(listed: readonly Listed[], signal: AbortSignal): Promise<Listed[]> {
    const ids = new Set(listed.map(({ id }) => id))
    const now = this.#options.clock.monotonicMs()
    const unlisted = this.#known.flatMap(({ id, server, unlistedAt = now }) => {
      return ids.has(id) || now - unlistedAt > UNLISTED_MS
        ? []
        : { id, server: { ...server, isUnlisted: true }, unlistedAt }
    })
    if (unlisted.length === 0) return []
    const answering = await this.#options.responsive(
      unlisted.map(({ server }) => server),
      signal,
    )
    const there = unlisted.filter(({ id }) => answering.has(id))
    const lost = there.filter(({ unlistedAt }) => unlistedAt === now).length
    if (lost > 0)
      this.#log.info(
        { servers: lost },
        'discovery server lists servers no more that answer: they stay for a while',
      )
    return there
  }

  async #stillHeard(signal: AbortSignal): Promise<Listed[]> {
    if (this.#known.length === 0) return []
    const heard = await this.#options.recentlyAnswered(this.servers, signal)
    return this.#known.filter(({ id }) => heard.has(id))
  }
}

/** Each URL once; the first one has most to say. */
export function distinct(servers: readonly OpcuaServer[]): OpcuaServer[] {
  const seen = new Set<string>()
  return servers.filter(({ discoveryUrl }) => !seen.has(discoveryUrl) && seen.add(discoveryUrl))
}
