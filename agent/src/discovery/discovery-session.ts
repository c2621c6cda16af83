import { isDeepStrictEqual } from 'node:util'
import type { Configuration } from '@akrijs/api'
import {
  aborted,
  Backoff,
  type Clock,
  kindOf,
  type Logger,
  messageOf,
  runAfter,
  TokenBucket,
  untilAborted,
} from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { HandlerAccess } from '../access/handler-access.js'
import type { Cluster } from '../cluster/cluster.js'
import { MissingPropertyError, PropertyForbiddenError, PropertyRefusedError } from '../errors.js'
import { DiscoveryFailedError, type HandlerEndpoint } from '../handlers/handler-endpoint.js'
import type { AgentObserver } from '../report/observer.js'
import { type EndpointList, lostAt } from './device-set.js'

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

interface SessionStatus {
  readonly state: SessionState
  /** What the handler tells people about devices; undefined if it cannot tell. */
  readonly reports: Reports
  /** Whether the last list answers the present details: an edit asks again. */
  readonly hasAnswered: boolean
}

export interface SessionOptions {
  readonly cluster: Pick<Cluster, 'resolveProperties'>
  /** What the handler may give to containers of what it reports. */
  readonly access: Pick<HandlerAccess, 'admit'>
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
  readonly observer: AgentObserver
  /** The most devices of one list. */
  readonly mostDevices: number
  /** An endpoint whose handler has left is gone after so many milliseconds. */
  readonly removeAfterMs: number
  /** The order of devices by id, for a list with more devices. */
  rank(): (id: string) => number
  /** The present list of the endpoint. */
  list(): EndpointList
  /** Called after every change of the state, with the list if it has changed. Must not throw. */
  onChange(list?: EndpointList): void
  /** Called when the endpoint is gone. */
  onGone(): void
}

/** Between attempts, in milliseconds. An endpoint that registers again is asked at once. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/**
 * A stream that lasts so long after its first list resets the back-off: a handler may break after
 * each list.
 */
const STEADY_MS = BACKOFF.ceilingMs
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

type Reports = readonly DeviceReport[] | undefined

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

/** Keeps a discovery stream open between one Configuration and one endpoint. */
export class DiscoverySession {
  readonly #endpoint: HandlerEndpoint
  readonly #options: SessionOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  readonly #budget: TokenBucket
  /** The lists that were read and not taken from the budget. */
  #owed = 0
  #configuration: Configuration
  #state: SessionState = { phase: 'opening' }
  /**
   * The reports of the last list, and those that the status shows. Undefined until a list answers
   * the present details.
   */
  #reports: { last: Reports; shown: Reports; isWaiting: boolean } | undefined
  #attempt = newAttempt()

  constructor(configuration: Configuration, endpoint: HandlerEndpoint, options: SessionOptions) {
    this.#configuration = configuration
    this.#endpoint = endpoint
    this.#options = options
    this.#budget = new TokenBucket({ clock: options.clock, ...LISTS })
    this.#running = this.#run()
  }

  get status(): SessionStatus {
    const hasAnswered = this.#reports !== undefined
    return { state: this.#state, reports: this.#reports?.shown, hasAnswered }
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
    if (this.#state.phase === 'open') this.#attempt.isWoken = true
    else this.#attempt.stop.abort()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#attempt.stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, random, list, onChange } = this.#options
    const backoff = new Backoff({ ...BACKOFF, random })
    while (!this.#stop.signal.aborted) {
      const attempt = newAttempt()
      this.#attempt = attempt
      const { signal } = attempt.stop
      try {
        await this.#follow(attempt)
        if (!signal.aborted)
          throw new DiscoveryFailedError('failed', `handler ${this.#endpoint.uid} ended its stream`)
      } catch (error) {
        if (!signal.aborted) await this.#failed(error, attempt)
      }
      if (this.#stop.signal.aborted) return
      const now = clock.monotonicMs()
      if (attempt.listedAt !== undefined && now - attempt.listedAt >= STEADY_MS) backoff.reset()
      onChange(lostAt(list(), now))
      if (!signal.aborted && !attempt.isWoken) await this.#rest(backoff, signal)
      if (!signal.aborted && !attempt.isWoken) continue
      backoff.reset()
      this.#owed += LISTS_OF_EARLY_ATTEMPT
      await this.#payForLists(this.#stop.signal)
    }
  }

  /** Waits until the next attempt. */
  async #rest(backoff: Backoff, signal: AbortSignal): Promise<void> {
    if (this.#state.phase === 'refused') return aborted(signal)
    const { clock, log } = this.#options
    const retryInMs = backoff.next()
    log.debug({ retryInMs }, 'discovery retry scheduled')
    await clock.sleep(retryInMs, signal).catch(() => undefined)
  }

  async #follow(attempt: Attempt): Promise<void> {
    const { clock, observer, cluster, access, onChange, ...options } = this.#options
    const { uid: endpoint, name: handler } = this.#endpoint
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
      mostDevices: options.mostDevices,
      rank: () => options.rank(),
    }
    for await (const { devices: listed, leftOut, reports } of this.#endpoint.discover(
      request,
      signal,
    )) {
      const { devices: before } = options.list()
      const { devices, changed } = await access.admit(handler, listed, before)
      if (signal.aborted) return
      const now = clock.monotonicMs()
      const seconds = attempt.listedAt === undefined ? (now - askedAt) / 1000 : undefined
      observer.handlerAnswered(name, handler, seconds)
      attempt.listedAt ??= now
      this.#followReports(reports, changed > 0 || devices.length !== before?.length)
      this.#state = { phase: 'open', listed: true }
      // Another process can be behind the endpoint by now.
      const { shared } = this.#endpoint
      onChange({ endpoint, shared, devices, leftOut, lostSince: undefined })
      this.#owed += 1 + Math.floor((changed + leftOut) / ENTRIES_OF_A_LIST)
      await this.#payForLists(signal)
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
      if (reports !== this.#reports || isDeepStrictEqual(reports.last, reports.shown)) return
      reports.shown = reports.last
      onChange()
    })
  }

  /** Waits until the budget has room for the lists that were read. */
  async #payForLists(signal: AbortSignal): Promise<void> {
    while (this.#owed > 0 && !signal.aborted) {
      const wait = this.#budget.take()
      if (wait === 0) this.#owed--
      else await this.#options.clock.sleep(wait, signal).catch(() => undefined)
    }
  }

  async #failed(error: unknown, { asked }: Attempt): Promise<void> {
    const { clock, log, observer, list, removeAfterMs, onGone } = this.#options
    const message = messageOf(error)
    if (asked) observer.handlerFailed(this.#endpoint.name)
    const reason = reasonOf(error, asked)
    const before = this.#state
    this.#state =
      error instanceof DiscoveryFailedError && error.failure === 'invalid-details'
        ? { phase: 'refused', message }
        : { phase: 'failed', reason, message }
    if (JSON.stringify(before) !== JSON.stringify(this.#state))
      log.warn({ err: error }, 'discovery failed')
    const { lostSince = Infinity } = list()
    const isLost = clock.monotonicMs() >= lostSince + removeAfterMs
    // A handler that comes back registers again; one that hung does not.
    if (isLost && reason === 'Unreachable' && (await this.#endpoint.hasLeft?.())) onGone()
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
