import { isDeepStrictEqual } from 'node:util'
import type { Configuration } from '@akrijs/api'
import {
  aborted,
  Backoff,
  backoff,
  type Clock,
  kindOf,
  type Logger,
  messageOf,
  runAfter,
  untilAborted,
} from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import { asReported, type HandlerAccess } from '../access/handler-access.js'
import type { Cluster } from '../cluster/cluster.js'
import { MissingPropertyError, PropertyForbiddenError, PropertyRefusedError } from '../errors.js'
import {
  DiscoveryFailedError,
  type HandlerEndpoint,
  handlerOfUid,
} from '../handlers/handler-endpoint.js'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import type { AgentObserver } from '../report/observer.js'
import type { AgeingOptions, EndpointList, RankOf } from './device-set.js'

export type SessionState =
  | { readonly phase: 'opening' }
  /** The stream is open; `listed` after its first list. */
  | { readonly phase: 'open'; readonly listed: boolean }
  /** The session failed and will try again. */
  | { readonly phase: 'failed'; readonly reason: SessionFailure; readonly message: string }
  /** The session waits until the Configuration changes. */
  | { readonly phase: 'refused'; readonly message: string }

/** The handler has not been asked: a property is not there, refused to the agent, or unreadable. */
type PropertyFailure =
  | 'MissingProperty'
  | 'PropertyForbidden'
  /** The property is of another namespace, without consent. */
  | 'PropertyRefused'
  | 'UnreadableProperty'

/** `InternalError` is a mistake in akri.js or in a handler. */
export type SessionFailure = PropertyFailure | 'Unreachable' | 'HandlerFailed' | 'InternalError'

/**
 * The answer of an endpoint to the present details. `fresh`: its stream is open, or has ended a
 * moment ago, and its devices are healthy. `old`: its stream has ended before that.
 */
export type HandlerAnswer = 'missing' | 'fresh' | 'old'

/** What the handler tells people about devices; undefined if it cannot tell. */
type Reports = readonly DeviceReport[] | undefined

export interface SessionStatus {
  readonly uid: string
  readonly state: SessionState
  readonly answer: HandlerAnswer
  readonly reports?: Reports
}

export interface SessionOptions extends AgeingOptions {
  readonly cluster: Pick<Cluster, 'resolveProperties'>
  readonly registry: Pick<HandlerRegistry, 'drop'>
  /** What the handler may give to containers of what it reports. */
  readonly access: Pick<HandlerAccess, 'admit'>
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
  readonly observer: AgentObserver
  /** The most devices of one list. */
  readonly mostDevices: number
  /** The order of the devices of a list with more devices. */
  ranks(): RankOf
  /** Called after every change of the list or of the state. Must not throw. */
  onChange(): void
}

/** Between attempts, in milliseconds. A stream that lasts so long resets the back-off. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** Between decisions about devices that are refused for now, in milliseconds. */
const DECISIONS = { initialMs: 1000, ceilingMs: 300_000 }
/**
 * A change of the reports alone is shown after so many milliseconds: a device that is left out now
 * and then must not cause writes without an end.
 */
const REPORTS_MS = 10_000
/** The lists that are read: a burst, then one in 200 ms. One plug can give 40 lists. */
const LISTS = { burst: 50, refillMs: 200 }
/** So many new or changed devices, and entries of them, count as one more list. */
const ENTRIES_OF_A_LIST = 1000
/**
 * An attempt before the back-off is over counts as so many lists: any process that may register can
 * cause it. A handler that registers then still waits for a second at most.
 */
const LISTS_OF_EARLY_ATTEMPT = 5

const OPENING: SessionState = { phase: 'opening' }

/**
 * Keeps a discovery stream open between one Configuration and one endpoint, and has its last list:
 * also while the endpoint is gone, and that of before a restart.
 */
export class DiscoverySession {
  readonly #options: SessionOptions
  #configuration: Configuration
  #list: EndpointList
  #endpoint: HandlerEndpoint | undefined
  #state = OPENING
  /** Of the last list, and in the status. Undefined until a list answers the present details. */
  #reports: { last: Reports; shown: Reports; isWaiting: boolean } | undefined
  /** Ends when the endpoint leaves. */
  #stop = new AbortController()
  /** Ends the present stream. */
  #stream = new AbortController()
  /** Ends the wait for the next stream, also before the wait has begun. */
  #wait = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  /** Ends the decisions about devices of the list that are refused for now. */
  #decisions = new AbortController()
  /** Time until which the budget of lists is spent. */
  #spentUntil = Number.NEGATIVE_INFINITY

  constructor(configuration: Configuration, list: EndpointList, options: SessionOptions) {
    this.#configuration = configuration
    this.#list = list
    this.#options = options
    void this.#decideAgain()
  }

  get list(): EndpointList {
    return this.#list
  }

  /** Whether the endpoint is there. */
  get isRunning(): boolean {
    return this.#endpoint !== undefined
  }

  get status(): SessionStatus {
    const { clock, unhealthyAfterMs } = this.#options
    const { endpoint: uid, lostSince = Infinity } = this.#list
    const isFresh = lostSince > clock.monotonicMs() - unhealthyAfterMs
    const answer = this.#reports === undefined ? 'missing' : isFresh ? 'fresh' : 'old'
    return { uid, state: this.#state, answer, reports: this.#reports?.shown }
  }

  /** Asks the endpoint until it leaves. One endpoint is asked at a time. */
  follow(endpoint: HandlerEndpoint): void {
    if (this.isRunning) return
    this.#endpoint = endpoint
    this.#stop = new AbortController()
    const before = this.#running
    this.#running = this.#run(endpoint, this.#stop.signal).then(() => before)
  }

  /** The endpoint is gone. The list stays. */
  leave(): void {
    this.#lose()
    this.#endpoint = undefined
    this.#state = OPENING
    this.#reports = undefined
    this.#stop.abort()
    this.restart()
  }

  /** Takes over an edit. Other details or properties restart the stream. */
  configure(configuration: Configuration): void {
    const before = this.#configuration.spec.discoveryHandler
    this.#configuration = configuration
    if (JSON.stringify(before) === JSON.stringify(configuration.spec.discoveryHandler)) return
    // The next list answers other details.
    this.#reports = undefined
    this.restart()
  }

  /** Opens another stream at once, because properties changed. */
  restart(): void {
    this.#stream.abort()
    this.#wait.abort()
  }

  /**
   * The endpoint registered again: another process may be behind it. A stream that is open shows
   * that the process of the stream lives. So only a wait ends at once, also the next wait.
   */
  wake(): void {
    this.#wait.abort()
  }

  async close(): Promise<void> {
    this.leave()
    this.#decisions.abort()
    await this.#running
  }

  async #run(endpoint: HandlerEndpoint, stop: AbortSignal): Promise<void> {
    const { clock, log, random, onChange } = this.#options
    const backoff = new Backoff({ ...BACKOFF, random })
    while (!stop.aborted) {
      this.#stream = new AbortController()
      this.#wait = new AbortController()
      const { signal } = this.#wait
      const listedAt = await this.#ask(endpoint, this.#stream.signal)
      if (stop.aborted) return
      if (clock.monotonicMs() - listedAt >= BACKOFF.ceilingMs) backoff.reset()
      this.#lose()
      onChange()
      if (this.#state.phase === 'refused') await aborted(signal)
      if (!signal.aborted) {
        const retryInMs = backoff.next()
        log.debug({ retryInMs }, 'discovery retry scheduled')
        await clock.sleep(retryInMs, signal).catch(() => undefined)
      }
      if (stop.aborted || !signal.aborted) continue
      backoff.reset()
      await this.#pay(LISTS_OF_EARLY_ATTEMPT, stop)
    }
  }

  /** The stream of the list has ended. */
  #lose(): void {
    this.#list = { lostSince: this.#options.clock.monotonicMs(), ...this.#list }
  }

  /** Follows a stream to its end. @returns the time of its first list; Infinity without a list */
  async #ask(endpoint: HandlerEndpoint, signal: AbortSignal): Promise<number> {
    const { clock, observer, cluster, access, mostDevices, ranks, onChange } = this.#options
    const configuration = this.#configuration
    const { name, namespace, uid } = configuration.metadata
    let [askedAt, listedAt] = [Infinity, Infinity]
    try {
      // An edit, and the end of the agent, do not wait for an API server that does not answer.
      const properties = await untilAborted(cluster.resolveProperties(configuration), signal)
      if (properties === undefined || signal.aborted) return listedAt
      askedAt = clock.monotonicMs()
      this.#state = { phase: 'open', listed: false }
      onChange()
      const label = `${namespace}/${name} ${uid}`
      const { discoveryDetails: details } = configuration.spec.discoveryHandler
      // Once for each list that is too long.
      let rankOf: RankOf | undefined
      const rank = (id: string) => {
        rankOf ??= ranks()
        return rankOf(id, endpoint.shared)
      }
      const request = { configuration: label, details, properties, mostDevices, rank }
      for await (const { leftOut, reports, ...list } of endpoint.discover(request, signal)) {
        rankOf = undefined
        const { devices: before } = this.#list
        const { devices, changed } = await access.admit(endpoint.name, list.devices, before)
        if (signal.aborted) return listedAt
        const now = clock.monotonicMs()
        const seconds = listedAt === Infinity ? (now - askedAt) / 1000 : undefined
        observer.handlerAnswered(name, endpoint.name, seconds)
        listedAt = Math.min(listedAt, now)
        this.#followReports(reports, changed > 0 || devices.length !== before?.length)
        this.#state = { phase: 'open', listed: true }
        // Another process can be behind the endpoint by now.
        this.#list = { endpoint: endpoint.uid, shared: endpoint.shared, devices, leftOut }
        void this.#decideAgain()
        onChange()
        await this.#pay(1 + Math.floor((changed + leftOut) / ENTRIES_OF_A_LIST), signal)
      }
    } catch (error) {
      if (!signal.aborted) await this.#failed(error, endpoint, askedAt < Infinity)
    }
    return listedAt
  }

  /**
   * Decides again about devices that are refused because of the present state of the node, with
   * short pauses first: the next list of the handler may be far.
   */
  async #decideAgain(): Promise<void> {
    this.#decisions.abort()
    this.#decisions = new AbortController()
    const { signal } = this.#decisions
    const { clock, access, log, random, onChange } = this.#options
    try {
      for (const wait of backoff({ ...DECISIONS, random })) {
        const { endpoint, devices: before = [] } = this.#list
        if (!before.some(({ isTemporary }) => isTemporary)) return
        await clock.sleep(wait, signal)
        const reported = before.map(asReported)
        const { devices } = await access.admit(handlerOfUid(endpoint), reported, before)
        if (signal.aborted) return
        if (devices.every(({ refusal }, index) => refusal === before[index]?.refusal)) continue
        this.#list = { ...this.#list, devices }
        onChange()
      }
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, 'refused devices not checked again')
    }
  }

  /** @param isChanged whether the devices of the list have changed: then the status is written */
  #followReports(last: Reports, isChanged: boolean): void {
    const { clock, onChange } = this.#options
    this.#reports ??= { last, shown: last, isWaiting: false }
    const reports = this.#reports
    reports.last = last
    if (isChanged) reports.shown = last
    if (reports.isWaiting || isDeepStrictEqual(last, reports.shown)) return
    reports.isWaiting = true
    runAfter(clock, REPORTS_MS, this.#stop.signal, () => {
      reports.isWaiting = false
      reports.shown = reports.last
      onChange()
    })
  }

  /** Takes so many lists from the budget, and waits until it has room for them. */
  async #pay(lists: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const now = clock.monotonicMs()
    const full = now - LISTS.burst * LISTS.refillMs
    this.#spentUntil = Math.max(this.#spentUntil, full) + lists * LISTS.refillMs
    if (this.#spentUntil > now)
      await clock.sleep(this.#spentUntil - now, signal).catch(() => undefined)
  }

  async #failed(error: unknown, endpoint: HandlerEndpoint, isAsked: boolean): Promise<void> {
    const { clock, log, observer, registry, removeAfterMs } = this.#options
    const message = messageOf(error)
    if (isAsked) observer.handlerFailed(endpoint.name)
    const failure = error instanceof DiscoveryFailedError ? error.failure : 'failed'
    const reason = reasonOf(error, isAsked ? failure : undefined)
    const before = JSON.stringify(this.#state)
    this.#state =
      failure === 'invalid-details'
        ? { phase: 'refused', message }
        : { phase: 'failed', reason, message }
    if (before !== JSON.stringify(this.#state)) log.warn({ err: error }, 'discovery failed')
    const { lostSince = Infinity } = this.#list
    const isLost = clock.monotonicMs() >= lostSince + removeAfterMs
    // A handler that comes back registers again; one that hung does not.
    if (isLost && reason === 'Unreachable' && (await endpoint.hasLeft?.())) registry.drop(endpoint)
  }
}

/** @param failure undefined if the handler has not been asked */
function reasonOf(
  error: unknown,
  failure: DiscoveryFailedError['failure'] | undefined,
): SessionFailure {
  if (kindOf(error) === 'bug') return 'InternalError'
  if (failure !== undefined) return failure === 'unreachable' ? 'Unreachable' : 'HandlerFailed'
  if (PropertyRefusedError.is(error)) return 'PropertyRefused'
  if (PropertyForbiddenError.is(error)) return 'PropertyForbidden'
  return MissingPropertyError.is(error) ? 'MissingProperty' : 'UnreadableProperty'
}
