import type { Configuration } from '@akrijs/api'
import { backoff, runAfter } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { AdmittedDevice } from '../access/handler-access.js'
import {
  type HandlerEndpoint,
  type HashedDevice,
  handlerOfUid,
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

export interface ConfigurationDiscoveryOptions
  extends AgeingOptions,
    Omit<SessionOptions, 'rank' | 'list' | 'onChange' | 'onGone'> {
  readonly registry: HandlerRegistry
  /** Ranks the devices of a Configuration by its present Instances. */
  rankDevices(configuration: Configuration): RankOf
  /** Called when the devices or the status may have changed. */
  onChange(): void
}

/** A list that the checkpoint keeps. */
export type KeptList = Pick<EndpointList, 'endpoint' | 'shared' | 'devices'>

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

/** An endpoint of the handler, or of the handler before an edit. */
interface FollowedEndpoint {
  list: EndpointList
  /** Undefined for an endpoint of before a restart, or one that left. */
  session: DiscoverySession | undefined
}

/** Stands for the endpoint that a handler without endpoints may have, until one has answered. */
const NO_ENDPOINT = ''

/**
 * The discovery of one Configuration: a session for each endpoint of its handler, and the devices
 * of all endpoints.
 */
export class ConfigurationDiscovery implements ListedDevices {
  readonly #options: ConfigurationDiscoveryOptions
  /** In the order in which the endpoints came. */
  readonly #endpoints = new Map<string, FollowedEndpoint>()
  #closing: Promise<unknown> = Promise.resolve()
  #configuration: Configuration
  #isAnswered = false
  #timer = new AbortController()
  /** Ends the decisions about devices that are refused for now. */
  #decisions = new AbortController()
  #listed: AgedSet = { ...NO_DEVICES, leftOut: 0, changesAt: Number.POSITIVE_INFINITY }
  #deviceSet: DeviceSet = NO_DEVICES

  /** @param restored from before a restart of the agent; no handler has confirmed them since */
  constructor(
    configuration: Configuration,
    restored: readonly KeptList[],
    options: ConfigurationDiscoveryOptions,
  ) {
    this.#configuration = configuration
    this.#options = options
    for (const { endpoint, ...list } of restored)
      this.#takeOver(this.#followed(endpoint), { ...this.#noList(endpoint), ...list })
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
    const endpoints = this.#sessions.map(([uid, { status }, { lostSince = Infinity }]) => {
      const { state, reports, hasAnswered } = status
      const isFresh = lostSince > freshSince
      const answer: HandlerAnswer = hasAnswered ? (isFresh ? 'fresh' : 'old') : 'missing'
      return { uid, state, answer, reports }
    })
    return { handler: this.handler, endpoints }
  }

  /** The devices of all lists. */
  get listed(): AgedSet {
    return this.#listed
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
    return this.#lists.flatMap(({ endpoint, shared, devices }) => {
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
    const endpoints = this.#options.registry.endpoints(this.handler)
    const uids = new Set(endpoints.map(({ uid }) => uid))
    for (const [uid, session] of this.#sessions) {
      if (uids.has(uid)) session.configure(configuration)
      else this.#endSession(uid, session)
    }
    for (const endpoint of endpoints) this.#beginSession(endpoint)
    // After any answer, all devices are in lists.
    if (endpoints.length > 0 || this.#isAnswered) this.#endpoints.delete(NO_ENDPOINT)
    else this.#followed(NO_ENDPOINT)
    this.#changed()
  }

  /** Opens the streams again, because properties changed. */
  restart(): void {
    for (const [, session] of this.#sessions) session.restart()
  }

  /** Asks an endpoint that registered again, unless its stream is open. */
  wake({ uid }: HandlerEndpoint): void {
    this.#endpoints.get(uid)?.session?.wake()
  }

  async close(): Promise<void> {
    this.#timer.abort()
    this.#decisions.abort()
    await Promise.all(this.#sessions.map(([, session]) => session.close()))
    await this.#closing
  }

  get #lists(): EndpointList[] {
    return Array.from(this.#endpoints.values(), ({ list }) => list)
  }

  get #sessions(): [uid: string, session: DiscoverySession, list: EndpointList][] {
    return [...this.#endpoints].flatMap(([uid, { list, session }]) =>
      session === undefined ? [] : [[uid, session, list]],
    )
  }

  #followed(uid: string): FollowedEndpoint {
    const followed = this.#endpoints.get(uid) ?? { list: this.#noList(uid), session: undefined }
    this.#endpoints.set(uid, followed)
    return followed
  }

  #noList(endpoint: string): EndpointList {
    const lostSince = this.#options.clock.monotonicMs()
    return { endpoint, shared: false, devices: undefined, leftOut: undefined, lostSince }
  }

  #beginSession(endpoint: HandlerEndpoint): void {
    const { uid } = endpoint
    const followed = this.#followed(uid)
    followed.session ??= new DiscoverySession(this.#configuration, endpoint, {
      ...this.#options,
      list: () => followed.list,
      rank: () => {
        const rankOf = this.ranks()
        return (id) => rankOf(id, endpoint.shared)
      },
      log: this.#options.log.child({ endpoint: uid }),
      onChange: (list) => {
        if (list !== undefined) this.#takeOver(followed, list)
        this.#changed()
      },
      onGone: () => this.#options.registry.drop(endpoint),
    })
  }

  #endSession(uid: string, session: DiscoverySession): void {
    const followed = this.#followed(uid)
    followed.session = undefined
    followed.list = lostAt(followed.list, this.#options.clock.monotonicMs())
    if (followed.list.devices === undefined) this.#endpoints.delete(uid)
    this.#after(session.close())
  }

  #takeOver(followed: FollowedEndpoint, list: EndpointList): void {
    const { devices } = followed.list
    followed.list = list
    if (list.devices !== devices && isRefusedForNow(list)) this.#decideAgain()
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
    const refused = () => this.#lists.filter(isRefusedForNow)
    const decide = async () => {
      for (const wait of backoff({ ...DECISIONS, random })) {
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
    const followed = this.#endpoints.get(endpoint)
    // Another list was decided about when it came.
    if (signal.aborted || followed?.list.devices !== devices) return
    if (decided.devices.every((device, index) => device === devices[index])) return
    followed.list = { ...followed.list, devices: decided.devices }
    this.#changed()
  }

  /** A bug in here is a bug on the way of this Configuration: the others go on. */
  #changed(): void {
    const { clock, log, onChange } = this.#options
    try {
      this.#dropLists()
      this.#listed = ageDevices(this.#lists, clock.monotonicMs(), this.#options)
      this.#wakeAt(this.#listed.changesAt)
    } catch (error) {
      log.error({ err: error }, 'device set not made')
    }
    onChange()
  }

  /** Drops lists without a session that no longer count. */
  #dropLists(): void {
    const { clock, removeAfterMs } = this.#options
    const now = clock.monotonicMs()
    const isAnswered = this.#sessions.some(
      ([, { status }]) => status.state.phase === 'open' && status.state.listed,
    )
    this.#isAnswered ||= isAnswered
    for (const [uid, { list, session }] of this.#endpoints) {
      if (session !== undefined || uid === NO_ENDPOINT) continue
      // After an answer, devices of the handler before an edit are no longer asked for.
      const isOfOther = isAnswered && handlerOfUid(uid) !== this.handler
      if (isOfOther || now >= (list.lostSince ?? now) + removeAfterMs) this.#endpoints.delete(uid)
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

function isRefusedForNow({ devices = [] }: EndpointList): boolean {
  return devices.some(({ isTemporary }) => isTemporary === true)
}

function asReported(device: AdmittedDevice): HashedDevice {
  return device.reported ?? device
}
