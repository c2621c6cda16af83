import { setMaxListeners } from 'node:events'
import { AkriError, type Clock, every, Latest, type Logger, messageOf } from '@akrijs/sdk'
import {
  addressOfUrl,
  isLinkLocal,
  MulticastSearch,
  machineAddresses,
  plainAddress,
  SourceLimit,
} from '@akrijs/sdk/network'
import type { CameraFacts, CameraRequest } from '../device/camera.js'
import { RefusedCredentials } from '../device/refused-credentials.js'
import {
  OnvifCredentialRefusedError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifUnreachableError,
} from '../errors.js'
import { MAX_LOGGED_SOURCES, QUESTIONS, ROUND_MS } from '../limits.js'
import type { NetworkPolicy } from '../network-policy.js'
import {
  type Announcement,
  DISCOVERY_PORT,
  type DiscoveryEvent,
  interfaceOf,
  WsDiscovery,
  type WsDiscoveryOptions,
} from '../ws-discovery/index.js'
import { cameraText } from '../xml/camera-text.js'
import type { CameraAnnouncement, PresenceKind } from './camera-entry.js'
import { type Camera, type CameraQuery, CameraSet, type CameraSetOptions } from './camera-set.js'
import { IgnoredAnnouncements, idOf, type LeftOutCamera, unanswered } from './left-out-cameras.js'
import { type ServiceUrlOptions, serviceUrls } from './service-urls.js'

export interface CameraDiscoveryOptions
  extends Pick<CameraSetOptions, 'identity' | 'refreshMs'>,
    Pick<WsDiscoveryOptions, 'interfaces' | 'probeAddresses'>,
    ServiceUrlOptions {
  /** The name of the filter that excludes a camera by its announcement: it is not queried. */
  readonly excludedBy: (announcement: CameraAnnouncement) => string | undefined
  /** The addresses that the handler may call now: the networks of the machine change. */
  readonly currentPolicy: () => NetworkPolicy
  /** Reads the facts of a camera. @throws AkriError if there is no camera at the URL */
  readonly read: (
    request: Pick<CameraRequest, 'url' | 'uuid' | 'zone' | 'refused' | 'signal' | 'onFailure'>,
    policy: NetworkPolicy,
  ) => Promise<CameraFacts>
  /** How long a round waits for answers, in milliseconds. */
  readonly windowMs: number
  /** From the start of a round to the start of the next, in milliseconds. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/**
 * How long the first list waits for queries, in milliseconds: a device that is not in a list is
 * gone.
 */
const FIRST_LIST_MS = 10_000
/** Changes within this time make one list, in milliseconds. */
const GATHER_MS = 100
/** The reason of devices that announce themselves from an address that is not allowed. */
const FOREIGN = 'sender not allowed'

/** What the handler knows at one moment. */
export interface CameraList {
  /** The cameras that are present. */
  readonly cameras: readonly Camera[]
  /** Devices that announced themselves, and that are no cameras, or are excluded. */
  readonly leftOut: readonly LeftOutCamera[]
  /** Why no device may have answered. */
  readonly remarks: readonly string[]
}

/** Finds cameras and follows them: yields all cameras after each change, and after each round. */
export async function* discoverCameras(
  options: CameraDiscoveryOptions,
): AsyncGenerator<CameraList, void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  // Each query and each repetition of a Probe listens to this signal.
  setMaxListeners(0, signal)
  const discovery = new CameraDiscovery({ ...options, signal })
  const running = discovery.run()
  try {
    for await (const _ of discovery.changes) {
      await options.clock.sleep(GATHER_MS, signal).catch(() => undefined)
      if (signal.aborted) return
      yield discovery.list
    }
  } finally {
    stop.abort()
    await running
  }
}

interface CameraAnswer {
  readonly url: string
  readonly facts: CameraFacts
  /** What the camera answered instead of facts. */
  readonly complaints: readonly AkriError[]
}

class CameraDiscovery {
  readonly changes = new Latest<void>()
  readonly #options: CameraDiscoveryOptions
  readonly #set: CameraSet
  readonly #discovery: WsDiscovery
  readonly #search: MulticastSearch
  /** The queries that run, by the id of their entry. */
  readonly #queries = new Map<string, { readonly source: string; readonly end: Promise<void> }>()
  readonly #questions = new SourceLimit({ ...QUESTIONS, roundMs: ROUND_MS })
  /** Devices that were asked for their URLs in this round: a device answers several Probes. */
  readonly #asked = new Set<string>()
  /** Until when an answer of a device counts as its Hello, which had no URL: for a round. */
  readonly #hellos = new Map<string, number>()
  readonly #refused: RefusedCredentials
  readonly #loggedSources = new Set<string>()
  readonly #ignored = new IgnoredAnnouncements()
  /** Kept apart: a network can have any number of foreign senders. */
  readonly #unread = new IgnoredAnnouncements()
  /** Why a device did not answer its last query, by the id of its entry. */
  readonly #unanswered = new Map<string, LeftOutCamera>()
  /** Cameras whose refused credential is logged, by the id of their entry. */
  readonly #refusing = new Set<string>()
  /** The logged answers without facts, by the id of the entry. */
  readonly #complaints = new Map<string, string>()
  #policy: NetworkPolicy
  #isListed = false

  constructor(options: CameraDiscoveryOptions) {
    this.#options = options
    this.#policy = options.currentPolicy()
    const accepts = (announcement: CameraAnnouncement) =>
      options.excludedBy(announcement) === undefined
    this.#set = new CameraSet({ ...options, accepts })
    this.#refused = new RefusedCredentials({ forMs: options.refreshMs, clock: options.clock })
    const { interfaces, probeAddresses, windowMs, clock, log, signal } = options
    this.#search = new MulticastSearch({
      messages: `WS-Discovery Probes (UDP port ${DISCOVERY_PORT})`,
      waitMs: windowMs,
      only: interfaces,
      clock,
    })
    const probed = new Set(probeAddresses.map(plainAddress))
    this.#discovery = new WsDiscovery({
      interfaces,
      probeAddresses,
      search: this.#search,
      clock,
      log,
      signal,
      allows: (address) => this.#policy.allows(address),
      camerasAt: (address) =>
        this.#set.camerasAt(address) + Number(probed.has(plainAddress(address))),
      onForeign: (address) =>
        this.#unread.add(
          undefined,
          address,
          FOREIGN,
          'the handler may not read announcements from it',
        ),
      onUnreadable: (address, detail) =>
        this.#unread.add(undefined, address, 'answer not readable', detail),
      onFault: (address, words) => this.#unread.add(undefined, address, 'SOAP fault', words),
      onOtherDevice: ({ uuid, types }, source) => {
        const names = types.map(({ local }) => local).join(', ')
        const detail = `its types are ${cameraText(names) || 'not announced'}`
        this.#unread.add(uuid, source, 'device of another type', detail)
      },
      onEvent: (event) => this.#onEvent(event),
      onFailure: (error) => this.changes.end(error),
    })
  }

  get list(): CameraList {
    const { cameras, candidates } = this.#set
    const present = new Set(cameras.map(({ uuid }) => uuid))
    const silent = candidates.map(
      ({ id, uuid, source }) => this.#unanswered.get(id) ?? unanswered(uuid, source, new Map()),
    )
    // A camera may also be announced by an address, or with a URL, that does not count.
    const ignored = this.#ignored.cameras.filter(({ uuid = '' }) => !present.has(uuid))
    const ownAddresses = new Set(machineAddresses())
    const unread = this.#unread.cameras.filter(
      ({ source }) => !ownAddresses.has(plainAddress(source)) && this.#set.camerasAt(source) === 0,
    )
    const leftOut = [...silent, ...ignored, ...unread]
    // The remarks name devices whose announcements are not read, if there are no others.
    const isUnanswered = cameras.length === 0 && leftOut.every(({ reason }) => reason === FOREIGN)
    return { cameras, leftOut, remarks: this.#search.remarks(isUnanswered) }
  }

  /** Runs until the signal is aborted, or a bug ends the discovery. */
  async run(): Promise<void> {
    try {
      await this.#runRounds()
      this.changes.end()
    } catch (error) {
      this.changes.end(error)
    } finally {
      this.#discovery.close()
      await this.#idle()
    }
  }

  async #runRounds(): Promise<void> {
    const { windowMs, intervalMs, clock, signal } = this.#options
    for await (const _ of every(intervalMs, { clock, signal })) {
      this.#policy = this.#options.currentPolicy()
      this.#asked.clear()
      const now = clock.monotonicMs()
      for (const [device, end] of this.#hellos) if (end < now) this.#hellos.delete(device)
      await this.#discovery.round(windowMs)
      if (!this.#isListed) await this.#queriesDone()
      if (signal.aborted) return
      this.#set.endRound()
      this.#ignored.endRound()
      this.#unread.endRound()
      const deviceIds = this.#set.ids
      for (const id of this.#unanswered.keys()) if (!deviceIds.has(id)) this.#unanswered.delete(id)
      for (const id of this.#refusing) if (!deviceIds.has(id)) this.#refusing.delete(id)
      for (const id of this.#complaints.keys()) if (!deviceIds.has(id)) this.#complaints.delete(id)
      this.#startQueries()
      this.#isListed = true
      this.changes.push()
    }
  }

  /** Resolves when no query is under way, and after FIRST_LIST_MS at the latest. */
  async #queriesDone(): Promise<void> {
    const { clock, signal } = this.#options
    const done = new AbortController()
    const over = AbortSignal.any([signal, done.signal])
    await Promise.race([this.#idle(), clock.sleep(FIRST_LIST_MS, over).catch(() => undefined)])
    done.abort()
  }

  /** Resolves when no query runs, and so none waits for a place. */
  async #idle(): Promise<void> {
    while (this.#queries.size > 0)
      await Promise.race([...this.#queries.values()].map(({ end }) => end))
  }

  #onEvent(event: DiscoveryEvent): void {
    const { kind, announcement, source } = event
    if (kind === 'Bye') {
      if (this.#set.bye(announcement.uuid, source)) this.#onChange()
    } else {
      const { urls, refused } = serviceUrls(announcement.xAddrs, this.#policy, this.#options)
      const { uuid } = announcement
      const heard = { ...announcement, urls, source, zone: this.#zoneOf(event, urls) }
      const filter = this.#options.excludedBy(heard)
      const limit =
        urls.length > 0 ? this.#set.heard(this.#kindOf(kind, uuid, source), heard) : undefined
      const isWithoutUrls = announcement.xAddrs.length === 0
      const isCurrent = isWithoutUrls ? this.#set.heardWithoutUrls(heard) : undefined
      if (filter !== undefined) this.#ignored.add(uuid, source, `filtered by ${filter}`)
      else if (limit !== undefined) this.#ignored.add(uuid, source, limit)
      else if (urls.length > 0) this.#ignored.delete(uuid, source)
      else if (refused.length > 0) {
        this.#ignored.add(uuid, source, 'address not allowed', refused.join('; '))
        this.#logRefusedUrls(uuid, source, refused)
      } else {
        if (isCurrent === undefined) this.#ignored.add(uuid, source, 'no URL announced')
        else this.#ignored.delete(uuid, source)
        if (!isCurrent || kind === 'Hello') this.#askForUrls(kind, announcement, source)
      }
    }
    this.#startQueries()
  }

  /** The interface that leads to the link-local addresses in URLs, if there are any. */
  #zoneOf({ source, interface: via }: DiscoveryEvent, urls: readonly string[]): string | undefined {
    if (!urls.some((url) => isLinkLocal(addressOfUrl(url) ?? ''))) return undefined
    // A socket for several interfaces does not tell which of them received a Hello.
    return via ?? interfaceOf(source, { only: this.#options.interfaces })
  }

  /** The first answer with a URL after a Hello without a URL counts as the Hello. */
  #kindOf(kind: PresenceKind, uuid: string, source: string): PresenceKind {
    const end = this.#hellos.get(idOf(uuid, source))
    this.#hellos.delete(idOf(uuid, source))
    return end !== undefined && this.#options.clock.monotonicMs() <= end ? 'Hello' : kind
  }

  #askForUrls(kind: PresenceKind, announcement: Announcement, source: string): void {
    const now = this.#options.clock.monotonicMs()
    const device = idOf(announcement.uuid, source)
    if (kind === 'ProbeMatch' && this.#asked.has(device)) return
    if (!this.#questions.take(source, 1, now)) return
    this.#asked.add(device)
    this.#discovery.resolve(announcement, source)
    if (kind === 'ProbeMatch') return
    // Some devices answer a Probe only.
    this.#discovery.probeAt(source)
    this.#hellos.set(device, now + ROUND_MS)
  }

  #startQueries(): void {
    const { signal } = this.#options
    if (signal.aborted) return
    const sources = [...this.#queries.values()].map(({ source }) => source)
    for (const query of this.#set.due(sources)) {
      const end = this.#run(query)
        .finally(() => this.#queries.delete(query.id))
        // Another query may wait for the place, or the device has said Hello during its query.
        .then(() => this.#startQueries())
        .catch((error: unknown) => {
          if (!signal.aborted) this.changes.end(error)
        })
      this.#queries.set(query.id, { source: query.source, end })
    }
  }

  /** @throws the signal's reason; a bug */
  async #run(query: CameraQuery): Promise<void> {
    const { log } = this.#options
    const { id, uuid, source, urls } = query
    const failures = new Map<string, AkriError>()
    let answer = await this.#firstAnswer(query, urls, failures)
    // Ids are made of URLs, and another node may have reached an earlier URL: a lost packet must
    // not decide.
    const unreached = urls.filter((url) => OnvifUnreachableError.is(failures.get(url)))
    if (answer !== undefined)
      answer = (await this.#firstAnswer(query, unreached, failures)) ?? answer
    if (answer === undefined) {
      this.#unanswered.set(id, unanswered(uuid, source, failures))
      const refusing = [...failures].find(([, error]) => OnvifCredentialRefusedError.is(error))
      this.#noteCredential(query, refusing)
      const count = this.#set.failed(id)
      const level = count === 1 ? 'info' : 'debug'
      log[level](
        { uuid, source, failures: count, err: joined([...failures.values()]) },
        'camera query failed',
      )
    } else {
      this.#unanswered.delete(id)
      const { url, facts, complaints } = answer
      const refusal = complaints.find((error) => OnvifNotAuthorizedError.is(error))
      const isRefused = facts.authentication === 'refused'
      this.#noteCredential(query, isRefused ? [url, refusal] : undefined)
      this.#noteComplaints(query, url, complaints)
      this.#set.answered(id, { url, facts, silentUrls: [...failures.keys()] })
    }
    this.#onChange()
  }

  /**
   * @param failures gets the error of each URL that does not answer @throws the signal's reason; a
   * bug
   */
  async #firstAnswer(
    { id, uuid, zones }: CameraQuery,
    urls: readonly string[],
    failures: Map<string, AkriError>,
  ): Promise<CameraAnswer | undefined> {
    const { signal, read } = this.#options
    const request = { uuid, refused: this.#refused, signal }
    for (const url of urls) {
      try {
        const complaints: AkriError[] = []
        const onFailure = (error: AkriError) => complaints.push(error)
        const zone = zones.get(url)
        const facts = await read({ ...request, url, zone, onFailure }, this.#policy)
        if (this.#set.isSameCamera(id, url, facts)) return { url, facts, complaints }
        failures.set(url, new OnvifReplyError(`${url}: another camera answered`))
      } catch (error) {
        if (signal.aborted || !AkriError.is(error) || error.kind === 'bug') throw error
        failures.set(url, error)
      }
    }
    return undefined
  }

  #onChange(): void {
    if (this.#isListed) this.changes.push()
  }

  /**
   * Logs once where and in which words a camera refuses the credential, until it answers in another
   * way.
   */
  #noteCredential(
    { id, uuid }: CameraQuery,
    refusal: readonly [url: string, error: AkriError | undefined] | undefined,
  ): void {
    if (refusal === undefined) this.#refusing.delete(id)
    else if (!this.#refusing.has(id)) {
      this.#refusing.add(id)
      const [url, err] = refusal
      this.#options.log.info({ uuid, url, ...(err && { err }) }, 'credential refused')
    }
  }

  /** Logs the operations that a camera does not answer, when they change. */
  #noteComplaints({ id, uuid }: CameraQuery, url: string, errors: readonly AkriError[]): void {
    const broken = errors.filter((error) => !OnvifNotAuthorizedError.is(error))
    const err = joined(broken)
    const isNews = this.#complaints.get(id) !== err.message
    if (broken.length === 0) this.#complaints.delete(id)
    else this.#complaints.set(id, err.message)
    if (broken.length > 0 && isNews)
      this.#options.log.info({ uuid, url, err }, 'camera calls failed')
  }

  #logRefusedUrls(uuid: string, source: string, reasons: readonly string[]): void {
    if (this.#loggedSources.has(source) || this.#loggedSources.size >= MAX_LOGGED_SOURCES) return
    this.#loggedSources.add(source)
    this.#options.log.info({ uuid, source, reasons }, 'camera URLs refused')
  }
}

/** Several errors as one error for the log. */
function joined(errors: readonly Error[]): Error {
  const [first] = errors
  return first !== undefined && errors.length === 1
    ? first
    : new AggregateError(errors, errors.map(messageOf).join('; '))
}
