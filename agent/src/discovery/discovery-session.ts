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

export type SessionFailure =
  | 'Unreachable'
  | 'HandlerFailed'
  /** The handler has not been asked: a property is not there. */
  | 'MissingProperty'
  /** The handler has not been asked: the agent may not read a property. */
  | 'PropertyForbidden'
  /** The handler has not been asked: a property is of another namespace, without consent. */
  | 'PropertyRefused'
  /** The handler has not been asked: a property cannot be read. */
  | 'UnreadableProperty'
  /** A mistake in akri.js or in a handler. */
  | 'InternalError'

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

/** Between attempts, in milliseconds. An endpoint that registers again is asked at once. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/**
 * A stream that lasts so long after its first list resets the back-off: a handler may break after
 * each list.
 */
const STEADY_MS = BACKOFF.ceilingMs
/** Between decisions about devices that are refused for now, in milliseconds. */
const DECISIONS = { initialMs: 1000, ceilingMs: 300_000 }
/**
 * A change of the reports of devices alone is shown after so many milliseconds: a device that is
 * offered now and then, or is left out for a moment, must not cause writes without an end.
 */
const REPORTS_MS = 10_000
/**
 * The lists of one endpoint that are read: a burst, then one in 200 ms. One plug of a device can
 * give 40 lists. A handler that lists without a pause must not keep the agent busy; the newest list
 * counts.
 */
const LISTS = { burst: 50, refillMs: 200 }
/**
 * So many new or changed devices, properties, mounts and device nodes count as one more list: each
 * costs time to read.
 */
const ENTRIES_OF_A_LIST = 1000
/**
 * An attempt before the back-off is over counts as so many lists: any process that may register can
 * cause it. Then a handler that registers still waits for a second at most.
 */
const LISTS_OF_EARLY_ATTEMPT = 5

/** One stream of the endpoint, with what comes before it. */
interface Attempt {
  readonly stop: AbortController
  /** Whether the next attempt follows at once: the endpoint registered during this attempt. */
  isWoken: boolean
  /** Whether the endpoint has been asked: the properties come first. */
  asked: boolean
  /** Time of the first list. */
  listedAt: number | undefined
}

/**
 * Keeps a discovery stream open between one Configuration and one endpoint, and has its last list.
 * Without an endpoint, it has the list of an endpoint that is gone, or of before a restart.
 */
export class DiscoverySession {
  readonly #endpoint: HandlerEndpoint | undefined
  readonly #options: SessionOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void> | undefined
  /** Ends the decisions about devices of the list that are refused for now. */
  #decisions = new AbortController()
  /** Time until which the budget of lists is spent. */
  #spentUntil = Number.NEGATIVE_INFINITY
  #configuration: Configuration
  #list: EndpointList
  #state: SessionState = { phase: 'opening' }
  /**
   * The reports of the last list, and those that the status shows. Undefined until a list answers
   * the present details.
   */
  #reports: { last: Reports; shown: Reports; isWaiting: boolean } | undefined
  #attempt = newAttempt()

  constructor(
    configuration: Configuration,
    list: EndpointList,
    options: SessionOptions,
    endpoint?: HandlerEndpoint,
  ) {
    this.#configuration = configuration
    this.#list = list
    this.#options = options
    this.#endpoint = endpoint
    this.#decideAgain()
    this.#running = endpoint && this.#run(endpoint)
  }

  /** The last list of the endpoint. */
  get list(): EndpointList {
    return this.#list
  }

  /** Whether the endpoint is there. */
  get isRunning(): boolean {
    return this.#endpoint !== undefined
  }

  /** Whether a stream is open, and has given a list. */
  get isListing(): boolean {
    return this.#state.phase === 'open' && this.#state.listed
  }

  get status(): SessionStatus {
    const { clock, unhealthyAfterMs } = this.#options
    const { endpoint: uid, lostSince = Infinity } = this.#list
    const isFresh = lostSince > clock.monotonicMs() - unhealthyAfterMs
    const answer = this.#reports === undefined ? 'missing' : isFresh ? 'fresh' : 'old'
    return { uid, state: this.#state, answer, reports: this.#reports?.shown }
  }

  /**
   * Takes over an edit. Other details or properties restart the stream; the list stays until the
   * next list.
   */
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
    this.#attempt.stop.abort()
  }

  /**
   * The endpoint registered again: another process may be behind it. A stream that is open shows
   * that the process of the stream lives. So only a wait ends at once, also the next wait.
   */
  wake(): void {
    this.#attempt.isWoken = true
    if (this.#state.phase !== 'open') this.#attempt.stop.abort()
  }

  async close(): Promise<void> {
    this.#lose()
    this.#stop.abort()
    this.#attempt.stop.abort()
    this.#decisions.abort()
    await this.#running
  }

  async #run(endpoint: HandlerEndpoint): Promise<void> {
    const { clock, random, onChange } = this.#options
    const backoff = new Backoff({ ...BACKOFF, random })
    while (!this.#stop.signal.aborted) {
      const attempt = newAttempt()
      this.#attempt = attempt
      const { signal } = attempt.stop
      await this.#follow(endpoint, attempt).catch((error: unknown) =>
        signal.aborted ? undefined : this.#failed(error, endpoint, attempt),
      )
      if (this.#stop.signal.aborted) return
      const { listedAt = Infinity } = attempt
      if (clock.monotonicMs() - listedAt >= STEADY_MS) backoff.reset()
      this.#lose()
      onChange()
      if (attempt.isWoken) attempt.stop.abort()
      if (!signal.aborted) await this.#rest(backoff, signal)
      if (!signal.aborted) continue
      backoff.reset()
      await this.#pay(LISTS_OF_EARLY_ATTEMPT, this.#stop.signal)
    }
  }

  /** The stream of the list has ended. */
  #lose(): void {
    this.#list = { lostSince: this.#options.clock.monotonicMs(), ...this.#list }
  }

  /** Waits until the next attempt. */
  async #rest(backoff: Backoff, signal: AbortSignal): Promise<void> {
    if (this.#state.phase === 'refused') return aborted(signal)
    const { clock, log } = this.#options
    const retryInMs = backoff.next()
    log.debug({ retryInMs }, 'discovery retry scheduled')
    await clock.sleep(retryInMs, signal).catch(() => undefined)
  }

  async #follow(endpoint: HandlerEndpoint, attempt: Attempt): Promise<void> {
    const { clock, observer, cluster, access, mostDevices, ranks, onChange } = this.#options
    const configuration = this.#configuration
    const { name, namespace, uid } = configuration.metadata
    const { signal } = attempt.stop
    // An edit, and the end of the agent, do not wait for an API server that does not answer.
    const properties = await untilAborted(cluster.resolveProperties(configuration), signal)
    if (properties === undefined || signal.aborted) return
    attempt.asked = true
    this.#state = { phase: 'open', listed: false }
    onChange()
    const askedAt = clock.monotonicMs()
    const request = {
      configuration: `${namespace}/${name} ${uid}`,
      details: configuration.spec.discoveryHandler.discoveryDetails,
      properties,
      mostDevices,
      rank: () => {
        const rankOf = ranks()
        return (id: string) => rankOf(id, endpoint.shared)
      },
    }
    for await (const { devices: listed, leftOut, reports } of endpoint.discover(request, signal)) {
      const { devices: before } = this.#list
      const { devices, changed } = await access.admit(endpoint.name, listed, before)
      if (signal.aborted) return
      const now = clock.monotonicMs()
      const seconds = attempt.listedAt === undefined ? (now - askedAt) / 1000 : undefined
      observer.handlerAnswered(name, endpoint.name, seconds)
      attempt.listedAt ??= now
      this.#followReports(reports, changed > 0 || devices.length !== before?.length)
      this.#state = { phase: 'open', listed: true }
      // Another process can be behind the endpoint by now.
      const { uid, shared } = endpoint
      this.#list = { endpoint: uid, shared, devices, leftOut }
      this.#decideAgain()
      onChange()
      await this.#pay(1 + Math.floor((changed + leftOut) / ENTRIES_OF_A_LIST), signal)
    }
  }

  /**
   * Decides again about devices that are refused because of the present state of the node: a slow
   * answer of the kernel or a device that comes later must not last until the next list of the
   * handler, which begins with short pauses.
   */
  #decideAgain(): void {
    this.#decisions.abort()
    this.#decisions = new AbortController()
    const { signal } = this.#decisions
    const { clock, access, log, random, onChange } = this.#options
    const decide = async () => {
      for (const wait of backoff({ ...DECISIONS, random })) {
        const { endpoint, devices = [] } = this.#list
        if (!devices.some(({ isTemporary }) => isTemporary)) return
        await clock.sleep(wait, signal)
        const reported = devices.map(asReported)
        const decided = await access.admit(handlerOfUid(endpoint), reported, devices)
        if (signal.aborted) return
        if (decided.devices.every((device, index) => device === devices[index])) continue
        this.#list = { ...this.#list, devices: decided.devices }
        onChange()
      }
    }
    decide().catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error }, 'refused devices not checked again')
    })
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
      if (reports !== this.#reports || isDeepStrictEqual(reports.last, reports.shown)) return
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

  async #failed(error: unknown, endpoint: HandlerEndpoint, { asked }: Attempt): Promise<void> {
    const { clock, log, observer, registry, removeAfterMs } = this.#options
    const message = messageOf(error)
    if (asked) observer.handlerFailed(endpoint.name)
    const reason = reasonOf(error, asked)
    const before = this.#state
    this.#state =
      error instanceof DiscoveryFailedError && error.failure === 'invalid-details'
        ? { phase: 'refused', message }
        : { phase: 'failed', reason, message }
    if (JSON.stringify(before) !== JSON.stringify(this.#state))
      log.warn({ err: error }, 'discovery failed')
    const { lostSince = Infinity } = this.#list
    const isLost = clock.monotonicMs() >= lostSince + removeAfterMs
    // A handler that comes back registers again; one that hung does not.
    if (isLost && reason === 'Unreachable' && (await endpoint.hasLeft?.())) registry.drop(endpoint)
  }
}

function newAttempt(): Attempt {
  return { stop: new AbortController(), isWoken: false, asked: false, listedAt: undefined }
}

function reasonOf(error: unknown, asked: boolean): SessionFailure {
  if (kindOf(error) === 'bug') return 'InternalError'
  if (asked) {
    const failure = error instanceof DiscoveryFailedError ? error.failure : 'failed'
    return failure === 'unreachable' ? 'Unreachable' : 'HandlerFailed'
  }
  if (PropertyRefusedError.is(error)) return 'PropertyRefused'
  if (PropertyForbiddenError.is(error)) return 'PropertyForbidden'
  return MissingPropertyError.is(error) ? 'MissingProperty' : 'UnreadableProperty'
}
