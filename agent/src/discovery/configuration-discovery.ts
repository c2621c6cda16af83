import type { Configuration } from '@akrijs/api'
import { backoff, runAfter } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/runtime/handler'
import type { AdmittedDevice } from '../access/handler-access.js'
import {
  type HandlerEndpoint,
  type HashedDevice,
  handlerOfUid,
  isUidOf,
} from '../handlers/handler-endpoint.js'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import {
  type AgedSet,
  type AgeingOptions,
  ageDevices,
  type DeviceSet,
  type EndpointList,
  isSameSet,
  type ListedDevices,
  lostAt,
  NO_DEVICES,
  RANK,
  type RankOf,
} from './device-set.js'
import { DiscoverySession, type SessionOptions, type SessionState } from './discovery-session.js'

interface ConfigurationDiscoveryOptions
  extends AgeingOptions,
    Omit<SessionOptions, 'rank' | 'list' | 'onChange' | 'onGone'> {
  readonly registry: HandlerRegistry
  rankDevices: RankDevices
  /** Called when the devices or the status may have changed. */
  onChange(): void
}

/** Ranks the devices of a Configuration by its present Instances. */
export type RankDevices = (configuration: Configuration) => RankOf

/** A list that the checkpoint keeps. */
export interface KeptList<Device = HashedDevice> {
  /** The uid of the endpoint. */
  readonly endpoint: string
  readonly shared: boolean
  readonly devices: readonly Device[]
}

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

/** Between decisions about devices that are refused for now, in milliseconds. */
const DECISIONS = { initialMs: 1000, ceilingMs: 300_000 }

/**
 * The discovery of one Configuration: a session for each endpoint of its handler, and the devices
 * of all endpoints.
 */
export class ConfigurationDiscovery implements ListedDevices {
  readonly #options: ConfigurationDiscoveryOptions
  readonly #sessions = new Map<string, DiscoverySession>()
  /**
   * By endpoint, in the order in which the endpoints came. Lists without a session are from before
   * a restart, of an endpoint that left, or of the handler before an edit; and {@link NO_ENDPOINT}.
   */
  readonly #lists = new Map<string, EndpointList>()
  #closing: Promise<unknown> = Promise.resolve()
  #configuration: Configuration
  #isAnswered = false
  #timer = new AbortController()
  /** Ends the decisions about devices that are refused for now. */
  #decisions = new AbortController()
  #aged: AgedSet = { ...NO_DEVICES, leftOut: 0, changesAt: Number.POSITIVE_INFINITY }
  #deviceSet: DeviceSet = NO_DEVICES

  /** @param restored from before a restart of the agent; no handler has confirmed them since */
  constructor(
    configuration: Configuration,
    restored: readonly KeptList<AdmittedDevice>[],
    options: ConfigurationDiscoveryOptions,
  ) {
    this.#configuration = configuration
    this.#options = options
    const lostSince = options.clock.monotonicMs()
    for (const list of restored) this.#takeOver({ ...list, leftOut: undefined, lostSince })
  }

  /** With its last edit. */
  get configuration(): Configuration {
    return this.#configuration
  }

  get handler(): string {
    return this.#configuration.spec.discoveryHandler.name
  }

  get status(): DiscoveryStatus {
    const { clock, unhealthyAfterMs } = this.#options
    const freshSince = clock.monotonicMs() - unhealthyAfterMs
    const endpoints = [...this.#sessions].map(([uid, { state, reports, hasAnswered }]) => {
      const isFresh = (this.#lists.get(uid)?.lostSince ?? Infinity) > freshSince
      const answer: HandlerAnswer = hasAnswered ? (isFresh ? 'fresh' : 'old') : 'missing'
      return { uid, state, answer, reports }
    })
    return { handler: this.handler, endpoints }
  }

  /** The devices of all lists. */
  get listed(): AgedSet {
    return this.#aged
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

  /**
   * The devices that are served, as reported, because other rules may hold after a restart. Each is
   * in the list that describes it: so the bounds of devices bound the checkpoint.
   */
  get servedLists(): readonly KeptList[] {
    const served = this.#deviceSet.devices
    return [...this.#lists.values()].flatMap(({ endpoint, shared, devices }) => {
      const kept = devices?.filter(({ id }) => served.get(id)?.endpoint === endpoint)
      return kept === undefined ? [] : { endpoint, shared, devices: kept.map(asReported) }
    })
  }

  /** @returns whether the devices to serve have changed */
  admit(set: DeviceSet): boolean {
    if (isSameSet(set, this.#deviceSet)) return false
    this.#deviceSet = set
    return true
  }

  /** Makes the sessions follow the Configuration and the registry. */
  follow(configuration: Configuration): void {
    this.#configuration = configuration
    const { clock, registry } = this.#options
    const endpoints = registry.endpoints(this.handler)
    const uids = new Set(endpoints.map(({ uid }) => uid))
    for (const [uid, session] of this.#sessions) {
      if (uids.has(uid)) session.configure(configuration)
      else this.#endSession(uid, session)
    }
    for (const endpoint of endpoints)
      if (!this.#sessions.has(endpoint.uid)) this.#beginSession(endpoint)
    // After any answer, all devices are in lists.
    if (endpoints.length > 0 || this.#isAnswered) this.#lists.delete(NO_ENDPOINT)
    else if (!this.#lists.has(NO_ENDPOINT))
      this.#lists.set(NO_ENDPOINT, noList(NO_ENDPOINT, clock.monotonicMs()))
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
    this.#decisions.abort()
    await Promise.all([...this.#sessions.values()].map((session) => session.close()))
    await this.#closing
  }

  #beginSession(endpoint: HandlerEndpoint): void {
    const { uid } = endpoint
    const begun = noList(uid, this.#options.clock.monotonicMs())
    const list = () => this.#lists.get(uid) ?? begun
    this.#lists.set(uid, list())
    const session = new DiscoverySession(this.#configuration, endpoint, {
      ...this.#options,
      list,
      rank: () => {
        const rankOf = this.ranks()
        return (id) => rankOf(id, endpoint.shared)
      },
      log: this.#options.log.child({ endpoint: uid }),
      onChange: (changed) => {
        if (changed !== undefined) this.#takeOver(changed)
        this.#changed()
      },
      onGone: () => this.#options.registry.drop(endpoint),
    })
    this.#sessions.set(uid, session)
  }

  #endSession(uid: string, session: DiscoverySession): void {
    this.#sessions.delete(uid)
    const list = this.#lists.get(uid)
    if (list?.devices === undefined) this.#lists.delete(uid)
    else this.#lists.set(uid, lostAt(list, this.#options.clock.monotonicMs()))
    this.#after(session.close())
  }

  #takeOver(list: EndpointList): void {
    const { endpoint, devices } = list
    const before = this.#lists.get(endpoint)?.devices
    this.#lists.set(endpoint, list)
    if (devices !== before && isRefusedForNow(list)) this.#decideAgain()
  }

  /**
   * Decides again about devices that are refused because of the present state of the node: a slow
   * answer of the kernel or a device that comes later must not last until the next list of a
   * handler. Other lists begin with short pauses.
   */
  #decideAgain(): void {
    this.#decisions.abort()
    this.#decisions = new AbortController()
    const { signal } = this.#decisions
    const { clock, log, random } = this.#options
    const decide = async () => {
      for (const wait of backoff({ ...DECISIONS, random })) {
        const refused = () => [...this.#lists.values()].filter(isRefusedForNow)
        if (refused().length === 0) return
        await clock.sleep(wait, signal)
        for (const list of refused()) await this.#decideAbout(list, signal)
      }
    }
    this.#after(
      decide().catch((error: unknown) => {
        if (!signal.aborted) log.error({ err: error }, 'refused devices not checked again')
      }),
    )
  }

  async #decideAbout({ endpoint, devices = [] }: EndpointList, signal: AbortSignal) {
    const { access } = this.#options
    const reported = devices.map(asReported)
    const decided = await access.admit(handlerOfUid(endpoint), reported, devices)
    const list = this.#lists.get(endpoint)
    // Another list was decided about when it came.
    if (signal.aborted || list?.devices !== devices) return
    if (decided.devices.every((device, index) => device === devices[index])) return
    this.#lists.set(endpoint, { ...list, devices: decided.devices })
    this.#changed()
  }

  /** A bug in here is a bug on the way of this Configuration: the others go on. */
  #changed(): void {
    const { clock, log, onChange } = this.#options
    try {
      this.#dropLists()
      this.#aged = ageDevices(this.#lists.values(), clock.monotonicMs(), this.#options)
      this.#wakeAt(this.#aged.changesAt)
    } catch (error) {
      log.error({ err: error }, 'device set not made')
    }
    onChange()
  }

  /** Drops lists without a session that no longer count. */
  #dropLists(): void {
    const { clock, removeAfterMs } = this.#options
    const now = clock.monotonicMs()
    const isAnswered = [...this.#sessions.values()].some(
      ({ state }) => state.phase === 'open' && state.listed,
    )
    this.#isAnswered ||= isAnswered
    for (const [uid, { lostSince = now }] of this.#lists) {
      if (this.#sessions.has(uid) || uid === NO_ENDPOINT) continue
      // After an answer, devices of the handler before an edit are no longer asked for.
      const isOfOther = isAnswered && !isUidOf(this.handler, uid)
      if (isOfOther || now >= lostSince + removeAfterMs) this.#lists.delete(uid)
    }
  }

  /** Time alone changes a device set too. */
  #wakeAt(time: number): void {
    this.#timer.abort()
    if (time === Number.POSITIVE_INFINITY) return
    const timer = new AbortController()
    this.#timer = timer
    const { clock } = this.#options
    runAfter(clock, time - clock.monotonicMs(), timer.signal, () => {
      if (!timer.signal.aborted) this.#changed()
    })
  }

  /** Lets the close wait for an end. */
  #after(end: Promise<unknown>): void {
    const before = this.#closing
    this.#closing = end.then(() => before)
  }
}

/** Stands for the endpoint that a handler without endpoints may have, until one has answered. */
const NO_ENDPOINT = ''

function noList(endpoint: string, lostSince: number): EndpointList {
  return { endpoint, shared: false, devices: undefined, leftOut: undefined, lostSince }
}

function isRefusedForNow({ devices = [] }: EndpointList): boolean {
  return devices.some(({ isTemporary }) => isTemporary === true)
}

function asReported(device: AdmittedDevice): HashedDevice {
  return device.reported ?? device
}
