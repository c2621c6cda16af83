import type { Configuration } from '@akrijs/api'
import { runAfter } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/runtime/handler'
import { type HandlerEndpoint, isUidOf } from '../handlers/handler-endpoint.js'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import { type AdmittedDevices, type ListedDevices, RANK, type RankOf } from './device-admission.js'
import { type AgedSet, type AgeingOptions, ageDevices, type EndpointList } from './device-ageing.js'
import { type DeviceSet, type DiscoveredDevice, isSameSet } from './device-set.js'
import { DiscoverySession, type SessionOptions, type SessionState } from './discovery-session.js'
import { Readmission } from './readmission.js'

/** `onChange` is called when the devices or the status may have changed. */
interface ConfigurationDiscoveryOptions
  extends AgeingOptions,
    Omit<SessionOptions, 'mostDevices' | 'rank'> {
  readonly registry: HandlerRegistry
  /** The most devices of one list. */
  readonly mostDevices: number
  rankDevices: RankDevices
}

/** Ranks the devices of a Configuration by its present Instances. */
export type RankDevices = (configuration: Configuration) => RankOf

/**
 * The answer of an endpoint to the present details. `fresh`: its stream is open, or has ended a
 * moment ago, and its devices are healthy. `old`: its stream has ended before that.
 */
export type HandlerAnswer = 'missing' | 'fresh' | 'old'

export interface DiscoveryStatus {
  readonly handler: string
  readonly endpoints: readonly {
    readonly uid: string
    readonly state: SessionState
    readonly answer: HandlerAnswer
    /** What the handler tells people about devices; undefined if it cannot tell. */
    readonly reports?: readonly DeviceReport[] | undefined
  }[]
}

/**
 * The discovery of one Configuration: a session for each endpoint of its handler, and the devices
 * of all sessions.
 */
export class ConfigurationDiscovery implements ListedDevices<DiscoveredDevice> {
  readonly uid: string
  readonly #options: ConfigurationDiscoveryOptions
  readonly #sessions = new Map<string, DiscoverySession>()
  /** The uids of endpoints with a session or a list, in the order in which they came. */
  readonly #seniority = new Set<string>()
  readonly #readmission: Readmission
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
  #aged: AgedSet = { ...NO_DEVICES, leftOut: 0, changesAt: undefined }
  #deviceSet: DeviceSet = NO_DEVICES

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
    for (const { endpoint } of restored) this.#seniority.add(endpoint)
    this.#options = options
    this.#readmission = new Readmission({
      ...options,
      onChange: (before, after) => {
        for (const session of this.#sessions.values()) session.replace(before, after)
        this.#orphans = this.#orphans.map((list) =>
          list.devices === before ? { ...list, devices: after } : list,
        )
        this.#changed()
      },
    })
  }

  get handler(): string {
    return this.#configuration.spec.discoveryHandler.name
  }

  /** In the order in which their endpoints came. */
  get lists(): readonly EndpointList[] {
    const lists = [...[...this.#sessions.values()].map(({ list }) => list), ...this.#orphans]
    const byEndpoint = new Map(lists.map((list) => [list.endpoint, list]))
    return [...this.#seniority].flatMap((uid) => byEndpoint.get(uid) ?? [])
  }

  get status(): DiscoveryStatus {
    const { clock, unhealthyAfterMs } = this.#options
    const freshSince = clock.monotonicMs() - unhealthyAfterMs
    const endpoints = [...this.#sessions].map(([uid, { state, reports, list, hasAnswered }]) => {
      const isFresh = (list.lostSince ?? Infinity) > freshSince
      const answer: HandlerAnswer = hasAnswered ? (isFresh ? 'fresh' : 'old') : 'missing'
      return { uid, state, answer, reports }
    })
    return { handler: this.handler, endpoints }
  }

  get namespace(): string {
    return this.#configuration.metadata.namespace
  }

  get capacity(): number {
    return this.#configuration.spec.capacity
  }

  /** The devices of all lists. */
  get devices(): ReadonlyMap<string, DiscoveredDevice> {
    return this.#aged.devices
  }

  /** A device that was admitted comes before new devices: its Instance may not be there yet. */
  ranks(): RankOf {
    const rankOf = this.#options.rankDevices(this.#configuration)
    const { devices } = this.#deviceSet
    return (id, shared) => {
      const rank = rankOf(id, shared)
      return rank === RANK.new && devices.has(id) ? RANK.served : rank
    }
  }

  /**
   * The devices to serve: the same object until they change, so that a long work can see that they
   * have changed.
   */
  get deviceSet(): DeviceSet {
    return this.#deviceSet
  }

  /** @returns whether the devices to serve have changed */
  admit({ devices, bound = 'perConfiguration' }: AdmittedDevices<DiscoveredDevice>): boolean {
    const { complete, devices: listed, leftOut: beyondList } = this.#aged
    const number = listed.size - devices.size + beyondList
    const leftOut = number > 0 ? { devices: number, bound, listed } : undefined
    const set = { devices, complete, leftOut }
    if (isSameSet(set, this.#deviceSet)) return false
    this.#deviceSet = set
    return true
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
        rank: (shared) => {
          const rankOf = this.ranks()
          return (id) => rankOf(id, shared)
        },
        log: this.#options.log.child({ endpoint: uid }),
        onChange: () => this.#changed(),
      })
      this.#sessions.set(uid, session)
      this.#seniority.add(uid)
    }
    const isWaiting = endpoints.size === 0 && !this.#isAnswered
    this.#waitingSince = isWaiting ? (this.#waitingSince ?? clock.monotonicMs()) : undefined
    this.#changed()
  }

  /** Opens the streams again, because properties changed. */
  restart(): void {
    for (const session of this.#sessions.values()) session.restart()
  }

  /** Asks an endpoint that registered again, unless its stream is open. */
  wake({ uid }: HandlerEndpoint): void {
    this.#sessions.get(uid)?.wake()
  }

  async close(): Promise<void> {
    this.#timer.abort()
    const parts = [this.#readmission, ...this.#sessions.values()]
    await Promise.all(parts.map((part) => part.close()))
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
      this.#readmission.follow(this.lists)
      const now = this.#options.clock.monotonicMs()
      this.#aged = ageDevices(this.lists, now, this.#options, this.#waitingSince)
      this.#wakeAt(this.#aged.changesAt)
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
    const present = new Set(this.lists.map(({ endpoint }) => endpoint))
    for (const uid of this.#seniority) if (!present.has(uid)) this.#seniority.delete(uid)
    for (const { endpoint, absentSince } of this.#sessions.values()) {
      // A handler that comes back registers again.
      const isLost = absentSince !== undefined && now >= absentSince + removeAfterMs
      if (isLost) registry.drop(endpoint)
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

const NO_DEVICES: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }
