import type { Configuration } from '@akrijs/api'
import { AkriError, aborted, Backoff, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { Device, DiscoveryProperties } from '@akrijs/runtime/handler'
import { DiscoveryFailedError, type HandlerEndpoint } from '../../ports/handler-endpoint.js'
import type { AgentObserver } from '../../ports/observer.js'
import type { EndpointList } from './device-ageing.js'

/** What a session does at present. */
export type SessionState =
  | { readonly phase: 'opening' }
  /** Its stream is open; `listed` once it has given a list. */
  | { readonly phase: 'open'; readonly listed: boolean }
  /** It failed and will be tried again. */
  | { readonly phase: 'failed'; readonly reason: SessionFailure; readonly message: string }
  /** The Configuration has to change first. */
  | { readonly phase: 'refused'; readonly message: string }

/** Of the last two the handler knows nothing: it has not been asked. */
export type SessionFailure =
  | 'Unreachable'
  | 'HandlerFailed'
  | 'MissingProperty'
  | 'UnreadableProperty'

export interface SessionOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
  readonly observer: AgentObserver
  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties>
  /** Called after every change of state or list. */
  onChange(): void
}

/** Between attempts, in milliseconds. A handler that registers again is asked at once, whatever the back-off says. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** A list that has stood for so long ends the back-off, in milliseconds: a handler may break right after each of its lists. */
const STEADY_MS = BACKOFF.ceilingMs

/**
 * Asks one endpoint for one Configuration, and goes on asking: a stream that ends is opened again. Its list outlives the
 * stream, with the time since when nobody vouches for it.
 */
export class DiscoverySession {
  readonly #options: SessionOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  #configuration: Configuration
  #endpoint: HandlerEndpoint
  #state: SessionState = { phase: 'opening' }
  #devices: readonly Device[] | undefined
  #shared: boolean
  #remembered: boolean
  #lostSince: number | undefined
  /** Since when the endpoint has not been reached, without a break. */
  #unreachableSince: number | undefined
  /** Aborted to begin anew: other details, other properties, another process behind the endpoint. */
  #attempt = new AbortController()

  constructor(
    configuration: Configuration,
    endpoint: HandlerEndpoint,
    restored: EndpointList | undefined,
    options: SessionOptions,
  ) {
    this.#configuration = configuration
    this.#endpoint = endpoint
    this.#options = options
    this.#devices = restored?.devices
    this.#shared = restored?.shared ?? endpoint.shared
    this.#remembered = restored?.remembered ?? false
    this.#lostSince = restored?.lostSince ?? options.clock.monotonicMs()
    this.#running = this.#run()
  }

  get endpoint(): HandlerEndpoint {
    return this.#endpoint
  }

  get state(): SessionState {
    return this.#state
  }

  get unreachableSince(): number | undefined {
    return this.#unreachableSince
  }

  get list(): EndpointList {
    return {
      endpoint: this.#endpoint.uid,
      shared: this.#shared,
      devices: this.#devices,
      remembered: this.#remembered,
      lostSince: this.#lostSince,
    }
  }

  /** Follows the Configuration: another question is asked at once, and the old answer stands until there is a new one. */
  configure(configuration: Configuration): void {
    const before = this.#configuration.spec.discoveryHandler
    this.#configuration = configuration
    if (JSON.stringify(before) !== JSON.stringify(configuration.spec.discoveryHandler))
      this.restart()
  }

  /** Asks anew, at once: the properties may be others, or the process behind the endpoint is. */
  restart(endpoint: HandlerEndpoint = this.#endpoint): void {
    this.#endpoint = endpoint
    this.#attempt.abort()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#attempt.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, random, log } = this.#options
    const backoff = new Backoff({ ...BACKOFF, random })
    while (!this.#stop.signal.aborted) {
      const attempt = new AbortController()
      this.#attempt = attempt
      let listedAt: number | undefined
      try {
        await this.#ask(attempt.signal, () => {
          listedAt ??= clock.monotonicMs()
        })
        if (!attempt.signal.aborted)
          this.#failed(
            new DiscoveryFailedError('failed', `handler ${this.#endpoint.uid} ended its stream`),
          )
      } catch (error) {
        if (!attempt.signal.aborted) this.#failed(error)
      }
      if (listedAt !== undefined && clock.monotonicMs() - listedAt >= STEADY_MS) backoff.reset()
      this.#lostSince ??= clock.monotonicMs()
      if (this.#stop.signal.aborted) return
      if (attempt.signal.aborted) {
        backoff.reset()
        continue
      }
      this.#options.onChange()
      if (this.#state.phase === 'refused') await aborted(attempt.signal)
      else {
        const waitMs = backoff.next()
        log.debug({ waitMs }, 'asking again later')
        await clock.sleep(waitMs, attempt.signal).catch(() => undefined)
      }
    }
  }

  async #ask(signal: AbortSignal, onList: () => void): Promise<void> {
    const { clock, observer } = this.#options
    const configuration = this.#configuration
    const { name, namespace, uid } = configuration.metadata
    const properties = await this.#options
      .resolveProperties(configuration)
      .catch((error: unknown) => {
        throw new UnresolvedPropertiesError(messageOf(error), { cause: error })
      })
    if (signal.aborted) return
    this.#state = { phase: 'open', listed: false }
    this.#options.onChange()
    const asked = clock.monotonicMs()
    let first = true
    const details = configuration.spec.discoveryHandler.discoveryDetails
    for await (const devices of this.#endpoint.discover(
      { configuration: `${namespace}/${name} ${uid}`, details, properties },
      signal,
    )) {
      if (signal.aborted) return
      observer.handlerAnswered(
        name,
        this.#endpoint.name,
        first ? (clock.monotonicMs() - asked) / 1000 : undefined,
      )
      first = false
      this.#devices = devices
      this.#shared = this.#endpoint.shared
      this.#remembered = false
      this.#lostSince = undefined
      this.#unreachableSince = undefined
      this.#state = { phase: 'open', listed: true }
      onList()
      this.#options.onChange()
    }
  }

  #failed(error: unknown): void {
    const message = messageOf(error)
    const asked = !(error instanceof UnresolvedPropertiesError)
    if (asked) this.#options.observer.handlerFailed(this.#endpoint.name)
    const failure = error instanceof DiscoveryFailedError ? error.failure : 'failed'
    const before = this.#state
    if (failure !== 'unreachable') this.#unreachableSince = undefined
    else this.#unreachableSince ??= this.#options.clock.monotonicMs()
    if (failure === 'invalid-details') this.#state = { phase: 'refused', message }
    else if (asked)
      this.#state = {
        phase: 'failed',
        reason: failure === 'unreachable' ? 'Unreachable' : 'HandlerFailed',
        message,
      }
    else this.#state = { phase: 'failed', reason: error.reason, message }
    if (JSON.stringify(before) !== JSON.stringify(this.#state))
      this.#options.log.warn({ error: message }, 'discovery failed')
  }
}

/** What the handler is to be given cannot be had: nothing is said about the handler. */
class UnresolvedPropertiesError extends Error {
  get reason(): SessionFailure {
    const { cause } = this
    return AkriError.is(cause) && cause.code === 'AKRI_ERR_MISSING_PROPERTY'
      ? 'MissingProperty'
      : 'UnreadableProperty'
  }
}
