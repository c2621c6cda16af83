import type { Configuration } from '@akrijs/api'
import { runAfter } from '@akrijs/runtime'
import { type HandlerEndpoint, isUidOf } from '../../ports/handler-endpoint.js'
import { type AgedSet, type AgeingOptions, ageDevices, type EndpointList } from './device-ageing.js'
import { DiscoverySession, type SessionOptions, type SessionState } from './discovery-session.js'
import type { HandlerRegistry } from './handler-registry.js'

/** `onChange` is called when the devices or the status may have changed. */
interface ConfigurationDiscoveryOptions extends AgeingOptions, SessionOptions {
  readonly registry: HandlerRegistry
}

export interface DiscoveryStatus {
  readonly handler: string
  readonly endpoints: readonly { readonly uid: string; readonly state: SessionState }[]
}

/**
 * The discovery of one Configuration: a session for each endpoint of its handler, and the devices
 * of all sessions.
 */
export class ConfigurationDiscovery {
  readonly uid: string
  readonly #options: ConfigurationDiscoveryOptions
  readonly #sessions = new Map<string, DiscoverySession>()
  #closing: Promise<unknown> = Promise.resolve()
  #configuration: Configuration
  /**
   * Lists without a session: from before a restart, of an endpoint that left, or of the handler
   * before an edit.
   */
  #orphans: readonly EndpointList[]
  /**
   * Start of the period without an endpoint; undefined after any answer, because all devices are in
   * lists then.
   */
  #waitingSince: number | undefined
  #isAnswered = false
  #timer = new AbortController()

  /**
   * @param restored lists from before a restart of the agent; no handler has confirmed them since
   */
  constructor(
    configuration: Configuration,
    restored: readonly EndpointList[],
    options: ConfigurationDiscoveryOptions,
  ) {
    this.uid = configuration.metadata.uid
    this.#configuration = configuration
    this.#orphans = restored
    this.#options = options
  }

  get handler(): string {
    return this.#configuration.spec.discoveryHandler.name
  }

  get lists(): readonly EndpointList[] {
    return [...[...this.#sessions.values()].map(({ list }) => list), ...this.#orphans]
  }

  get status(): DiscoveryStatus {
    const endpoints = [...this.#sessions].map(([uid, { state }]) => ({ uid, state }))
    return { handler: this.handler, endpoints }
  }

  get deviceSet(): AgedSet {
    const { clock } = this.#options
    return ageDevices(this.lists, clock.monotonicMs(), this.#options, this.#waitingSince)
  }

  /** Whether a session uses the endpoint and can reach it. */
  uses(endpoint: string): boolean {
    const session = this.#sessions.get(endpoint)
    return session !== undefined && session.unreachableSince === undefined
  }

  /** Makes the sessions follow the Configuration and the registry. */
  follow(configuration: Configuration): void {
    this.#configuration = configuration
    const { clock, registry } = this.#options
    const endpoints = new Map(registry.endpoints(this.handler).map((found) => [found.uid, found]))
    for (const [uid, session] of this.#sessions) {
      if (endpoints.has(uid)) session.configure(configuration)
      else this.#endSession(session)
    }
    for (const [uid, endpoint] of endpoints) {
      if (this.#sessions.has(uid)) continue
      const restored = this.#orphans.find((list) => list.endpoint === uid)
      this.#orphans = this.#orphans.filter((list) => list !== restored)
      const session = new DiscoverySession(configuration, endpoint, restored, {
        ...this.#options,
        log: this.#options.log.child({ endpoint: uid }),
        onChange: () => this.#changed(),
      })
      this.#sessions.set(uid, session)
    }
    const isWaiting = endpoints.size === 0 && !this.#isAnswered
    this.#waitingSince = isWaiting ? (this.#waitingSince ?? clock.monotonicMs()) : undefined
    this.#changed()
  }

  /** Opens the streams again, because properties changed. */
  restart(): void {
    for (const session of this.#sessions.values()) session.restart()
  }

  /** Opens the stream of one endpoint again, because another process is behind the endpoint. */
  reconnect(endpoint: HandlerEndpoint): void {
    this.#sessions.get(endpoint.uid)?.restart(endpoint)
  }

  async close(): Promise<void> {
    this.#timer.abort()
    await Promise.all([...this.#sessions.values()].map((session) => session.close()))
    await this.#closing
  }

  #endSession(session: DiscoverySession): void {
    const { list } = session
    const lostSince = list.lostSince ?? this.#options.clock.monotonicMs()
    this.#sessions.delete(list.endpoint)
    if (list.devices !== undefined) this.#orphans = [...this.#orphans, { ...list, lostSince }]
    const closing = session.close()
    this.#closing = this.#closing.then(() => closing)
  }

  /** A bug in here is a bug on the way of this Configuration: the others go on. */
  #changed(): void {
    try {
      this.#dropLost()
      this.#wakeAt(this.deviceSet.changesAt)
    } catch (error) {
      this.#options.log.error({ err: error }, 'device set not made')
    }
    this.#options.onChange()
  }

  #dropLost(): void {
    const { clock, removeAfterMs, registry } = this.#options
    const now = clock.monotonicMs()
    const isAnswered = [...this.#sessions.values()].some(
      ({ state }) => state.phase === 'open' && state.listed,
    )
    this.#isAnswered ||= isAnswered
    this.#orphans = this.#orphans.filter(
      ({ endpoint, lostSince = now }) =>
        // After an answer, devices of the handler before an edit are no longer asked for.
        !(isAnswered && !isUidOf(this.handler, endpoint)) && now < lostSince + removeAfterMs,
    )
    for (const { endpoint, unreachableSince } of this.#sessions.values()) {
      // A handler that comes back registers again. An embedded handler is never out of reach.
      if (unreachableSince !== undefined && now >= unreachableSince + removeAfterMs)
        registry.drop(endpoint)
    }
  }

  /** Time alone changes a device set too. */
  #wakeAt(time: number | undefined): void {
    this.#timer.abort()
    if (time === undefined) return
    const timer = new AbortController()
    this.#timer = timer
    const { clock } = this.#options
    runAfter(clock, time - clock.monotonicMs(), timer.signal, () => {
      if (!timer.signal.aborted) this.#changed()
    })
  }
}
