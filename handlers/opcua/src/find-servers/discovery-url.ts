import { isIP } from 'node:net'
import {
  AkriError,
  type Clock,
  type Logger,
  messageOf,
  Presence,
  type ReportedDevice,
} from '@akrijs/sdk'
import { HostNameError, type HostNames } from '@akrijs/sdk/network'
import { distinct } from '../distinct-servers.js'
import { parseEndpointUrl, shownUrl } from '../endpoint-url.js'
import { OpcuaUnreachableError } from '../errors.js'
import { reasonOf } from '../left-out-reason.js'
import type { OpcuaServer, ServerList } from '../opcua-server.js'
import { addressesIfAny } from '../reach.js'
import {
  type ApplicationDescription,
  type CallOptions,
  type CallTimeouts,
  callService,
  findServers,
  findServersAsRegistered,
  type ServerOnNetwork,
  type Target,
} from '../ua-tcp/index.js'
import { NetworkRecords } from './network-records.js'
import {
  type AddressesOf,
  announcedServers,
  echoesRequestUrl,
  hostsIn,
  isDiscoveryServer,
  listedServers,
  type Respondent,
  urlsIn,
} from './server-list.js'

/** Rounds without an answer after which the servers of a URL are gone, unless they still answer. */
const ROUNDS_OF_SILENCE = 2
/** The longest wait for a URL that keeps failing, in rounds. */
const MAX_ROUNDS_TO_WAIT = 3
/**
 * How long a server stays that answers but is not listed any more, in milliseconds. A server must
 * register again every ten minutes (OPC 10000-4, 5.5.5), so twice this time covers a restart of its
 * discovery server.
 */
const UNLISTED_MS = 20 * 60_000

/**
 * The host names of an answer that are looked up: the handler offers no more servers, and one
 * answer must leave room for the names of others.
 */
const MAX_NAMES = 1000

type ServerQuery = (
  servers: readonly OpcuaServer[],
  signal: AbortSignal,
) => Promise<ReadonlySet<string>>

export interface DiscoveryUrlOptions {
  readonly hostNames: HostNames
  readonly log: Logger
  /** The URLs of the servers that answered recently, or answer now. */
  readonly recentlyAnswered: ServerQuery
  /** The URLs of the servers that answered the last call to them, which may happen now. */
  readonly responsive: ServerQuery
  readonly clock: Clock
  readonly timeouts?: CallTimeouts
}

interface ServerEntry {
  readonly id: string
  readonly server: OpcuaServer
  /** When the discovery server stopped listing this server. */
  readonly unlistedAt?: number
}

interface Answer extends ServerList {
  readonly isOfDiscoveryServer: boolean
}

/**
 * A discovery URL of the details and the servers behind it. A server that is missing in an answer
 * is gone, unless a discovery server omits it while it still answers: a restarted discovery server
 * forgets its servers. A URL that does not answer proves nothing: its servers stay for a few
 * rounds, and as long as they answer themselves.
 */
export class DiscoveryUrl {
  readonly #discoveryUrl: string
  readonly #options: DiscoveryUrlOptions
  readonly #log: Logger
  readonly #records: NetworkRecords
  readonly #presence = new Presence<ServerEntry>({ missesAllowed: ROUNDS_OF_SILENCE })
  #entries: readonly ServerEntry[] = []
  #leftOut: readonly ReportedDevice[] = []
  #failures = 0
  #roundsToWait = 0
  /** The code of the last error; undefined after an answer. */
  #errorCode: string | undefined
  /** See {@link echoesRequestUrl}. */
  #echoes = false
  #answered = false
  #isDiscoveryServer = false

  constructor(discoveryUrl: string, options: DiscoveryUrlOptions) {
    this.#discoveryUrl = discoveryUrl
    this.#options = options
    this.#log = options.log.child({ discoveryUrl })
    this.#records = new NetworkRecords(this.#log)
  }

  /** Whether `servers` is meaningful: the URL answered once, or failed in all allowed rounds. */
  get isSettled(): boolean {
    return this.#answered || this.#failures > ROUNDS_OF_SILENCE
  }

  /** Whether the last call failed. */
  get isFailing(): boolean {
    return this.#failures > 0
  }

  /** Whether the last answer came from a discovery server. */
  get isDiscoveryServer(): boolean {
    return this.#isDiscoveryServer
  }

  get servers(): readonly OpcuaServer[] {
    return this.#entries.map(({ server }) => server)
  }

  /** Parts of the last answer without a usable server, or the URL itself if it did not answer. */
  get leftOut(): readonly ReportedDevice[] {
    return this.#leftOut
  }

  /** Calls the URL, or waits after failures. Rejects only when the signal is aborted. */
  async round(signal: AbortSignal): Promise<void> {
    this.#roundsToWait--
    const answer = this.#roundsToWait > 0 ? undefined : await this.#tryCall(signal)
    if (answer === undefined) {
      this.#entries = this.#presence.round(await this.#recentlyAnswered(signal))
      return
    }
    const listed = answer.servers.map(
      (server): ServerEntry => ({ id: server.discoveryUrl, server }),
    )
    const present = answer.isOfDiscoveryServer
      ? [...listed, ...(await this.#unlisted(listed, signal))]
      : listed
    const ids = new Set(present.map(({ id }) => id))
    for (const { id } of this.#entries) if (!ids.has(id)) this.#presence.forget(id)
    this.#entries = this.#presence.round(present)
  }

  async #tryCall(signal: AbortSignal): Promise<Answer | undefined> {
    try {
      const answer = await this.#call(signal)
      if (this.#errorCode !== undefined) this.#log.info({}, 'discovery URL answered again')
      this.#errorCode = undefined
      this.#failures = 0
      this.#roundsToWait = 0
      this.#answered = true
      this.#isDiscoveryServer = answer.isOfDiscoveryServer
      this.#leftOut = answer.leftOut
      return answer
    } catch (error) {
      signal.throwIfAborted()
      if (!AkriError.is(error)) throw error
      this.#failures++
      this.#roundsToWait = Math.min(
        MAX_ROUNDS_TO_WAIT,
        Math.max(1, this.#failures - ROUNDS_OF_SILENCE),
      )
      this.#leftOut = [this.#leftOutBecause(reasonOf(error), messageOf(error))]
      // Another server may answer next time.
      this.#records.reset()
      this.#echoes = false
      // One line for each kind of failure, not for each round.
      if (error.code !== this.#errorCode) this.#log.warn({ err: error }, 'discovery URL failed')
      this.#errorCode = error.code
      return undefined
    }
  }

  async #call(signal: AbortSignal): Promise<Answer> {
    const { hostNames, timeouts } = this.#options
    const url = parseEndpointUrl(this.#discoveryUrl)
    const addresses = await hostNames.addressesOf(url.host).catch((error: unknown) => {
      throw error instanceof HostNameError
        ? new OpcuaUnreachableError(error.message, { cause: error })
        : error
    })
    const respondent: Respondent = { discoveryUrl: this.#discoveryUrl, url, addresses }
    const target: Target = { addresses, port: url.port, endpointUrl: this.#discoveryUrl }
    const applications = await this.#findServers(respondent, target, { ...timeouts, signal })
    const isOfDiscoveryServer = isDiscoveryServer(applications)
    const records = isOfDiscoveryServer
      ? await this.#records.round(target, { ...timeouts, signal })
      : []
    const addressesOf = await this.#addresses([
      ...urlsIn(applications),
      ...records.map(({ discoveryUrl }) => discoveryUrl),
    ])
    const lists = [
      listedServers(applications, respondent, addressesOf),
      await this.#announced(records, respondent, addressesOf, signal),
    ]
    const servers = distinct(lists.flatMap((list) => list.servers))
    const leftOut = lists.flatMap((list) => list.leftOut)
    if (servers.length > 0 || leftOut.length > 0) return { servers, leftOut, isOfDiscoveryServer }
    const reason = isOfDiscoveryServer ? 'discovery server without servers' : 'reports no server'
    return { servers, leftOut: [this.#leftOutBecause(reason)], isOfDiscoveryServer }
  }

  #leftOutBecause(reason: string, detail?: string): ReportedDevice {
    const id = shownUrl(this.#discoveryUrl)
    return { id, reason, ...(detail !== undefined && { detail }) }
  }

  async #findServers(
    respondent: Respondent,
    target: Target,
    options: CallOptions,
  ): Promise<readonly ApplicationDescription[]> {
    if (!this.#echoes) {
      const applications = await callService(findServers, target, options)
      if (!echoesRequestUrl(applications, respondent)) return applications
      this.#echoes = true
    }
    return callService(findServersAsRegistered, target, options)
  }

  /** Resolves the hosts of all URLs at the same time. */
  async #addresses(urls: readonly string[]): Promise<AddressesOf> {
    const { hostNames } = this.#options
    const addresses = new Map<string, readonly string[]>()
    const names = hostsIn(urls).filter((host) => isIP(host) === 0)
    await Promise.all(
      names.slice(0, MAX_NAMES).map(async (name) => {
        addresses.set(name, await addressesIfAny(hostNames, name))
      }),
    )
    return (host) => (isIP(host) > 0 ? [host] : (addresses.get(host) ?? []))
  }

  /** Without an answer of the service, an announced server stays as long as it answers itself. */
  async #announced(
    records: readonly ServerOnNetwork[],
    respondent: Respondent,
    addressesOf: AddressesOf,
    signal: AbortSignal,
  ): Promise<ServerList> {
    const announced = announcedServers(records, respondent, addressesOf)
    if (!this.#records.areOld || announced.servers.length === 0) return announced
    const answered = await this.#options.recentlyAnswered(announced.servers, signal)
    const hasAnswered = ({ discoveryUrl }: OpcuaServer) => answered.has(discoveryUrl)
    this.#records.forget(announced.servers.filter((server) => !hasAnswered(server)))
    return { ...announced, servers: announced.servers.filter(hasAnswered) }
  }

  /** Servers that are not listed any more, but answer. */
  async #unlisted(listed: readonly ServerEntry[], signal: AbortSignal): Promise<ServerEntry[]> {
    const ids = new Set(listed.map(({ id }) => id))
    const now = this.#options.clock.monotonicMs()
    const unlisted = this.#entries.flatMap(({ id, server, unlistedAt = now }) =>
      ids.has(id) || now - unlistedAt > UNLISTED_MS
        ? []
        : { id, server: { ...server, isUnlisted: true }, unlistedAt },
    )
    if (unlisted.length === 0) return []
    const servers = unlisted.map(({ server }) => server)
    const responsive = await this.#options.responsive(servers, signal)
    const present = unlisted.filter(({ id }) => responsive.has(id))
    const count = present.filter(({ unlistedAt }) => unlistedAt === now).length
    if (count > 0) this.#log.info({ servers: count }, 'servers missing in the list kept')
    return present
  }

  async #recentlyAnswered(signal: AbortSignal): Promise<ServerEntry[]> {
    if (this.#entries.length === 0) return []
    const answered = await this.#options.recentlyAnswered(this.servers, signal)
    return this.#entries.filter(({ id }) => answered.has(id))
  }
}
