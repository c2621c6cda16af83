import type { Configuration } from '@akrijs/api'
import { runAfter } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/runtime/handler'
import { type HandlerEndpoint, isUidOf } from '../../ports/handler-endpoint.js'
import { type AgedSet, type AgeingOptions, ageDevices, type EndpointList } from './device-ageing.js'
import type { DeviceBounds } from './device-bounds.js'
import { DeviceSelection } from './device-selection.js'
import type { DeviceSet, DiscoveredDevice } from './device-set.js'
import type { DeviceDemand, DeviceShare } from './device-shares.js'
import { deviceUnits, listUnits } from './device-units.js'
import { DiscoverySession, type SessionOptions, type SessionState } from './discovery-session.js'
import type { HandlerRegistry } from './handler-registry.js'
import { trimLists } from './list-memory.js'
import { Readmission } from './readmission.js'

/** A handler is asked again for devices that the agent has forgotten, in milliseconds. */
const ASK_AGAIN_MS = 60_000

/** `onChange` is called when the devices or the status may have changed. */
interface ConfigurationDiscoveryOptions
  extends AgeingOptions,
    Omit<SessionOptions, 'mostDevices' | 'rank'> {
  readonly registry: HandlerRegistry
  readonly bounds: DeviceBounds
  rankDevices: RankDevices
}

/** Ranks the devices of a Configuration by its present Instances. */
export type RankDevices = (configuration: Configuration) => DeviceRanks

export interface DeviceRanks {
  /**
   * Beyond a bound, devices with smaller ranks are kept first. Those that this node serves come
   * before others: a flood of new ids never displaces them. Large devices come after the other
   * served devices: a device that grows displaces none of them.
   * @param units as how many usual devices the device counts
   */
  rankOf(id: string, shared: boolean, units: number): number
  /** Whether this node serves the device. */
  isServed(id: string, shared: boolean): boolean
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

/**
 * The discovery of one Configuration: a session for each endpoint of its handler, and the devices
 * of all sessions.
 */
export class ConfigurationDiscovery {
  readonly uid: string
  readonly #options: ConfigurationDiscoveryOptions
  readonly #sessions = new Map<string, DiscoverySession>()
  /** The uids of endpoints with a session or a list, in the order in which they came. */
  readonly #seniority = new Set<string>()
  readonly #readmission: Readmission
  readonly #stop = new AbortController()
  #isToAskAgain = false
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
  #aged: { readonly lists: readonly EndpointList[]; readonly set: AgedSet } | undefined
  #bounded: { readonly of: AgedSet; readonly most: number; readonly set: DeviceSet } | undefined

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

  /** The units of the devices that could be served, up to the bound of a Configuration. */
  get units(): number {
    const { units, leftOut } = this.#agedSet
    return Math.min(units + leftOut, this.#options.bounds.perConfiguration)
  }

  /** The slots of each device. */
  get capacity(): number {
    return this.#configuration.spec.capacity
  }

  /** How many of these devices this node serves, and their units. */
  get served(): Pick<DeviceDemand, 'served' | 'servedUnits'> {
    const { isServed } = this.#options.rankDevices(this.#configuration)
    let [served, servedUnits] = [0, 0]
    for (const [id, { device, shared }] of this.#agedSet.devices) {
      if (!isServed(id, shared)) continue
      served++
      servedUnits += deviceUnits(device)
    }
    const { perConfiguration } = this.#options.bounds
    return {
      served: Math.min(served, perConfiguration),
      servedUnits: Math.min(servedUnits, perConfiguration),
    }
  }

  /**
   * The devices to serve: the same object until they change, so that a long work can see that they
   * have changed.
   * @param share what the bounds of the node leave to this Configuration; undefined if they leave
   * all
   */
  deviceSet(share: DeviceShare | undefined): DeviceSet {
    const aged = this.#agedSet
    const { perConfiguration } = this.#options.bounds
    const most = Math.min(share?.most ?? perConfiguration, perConfiguration)
    if (this.#bounded?.of !== aged || this.#bounded.most !== most) {
      const devices = this.#select(aged, most)
      const leftOut = aged.devices.size - devices.size + aged.leftOut
      const isOfNode = share !== undefined && share.most < this.units
      const bound = isOfNode ? share.bound : 'perConfiguration'
      const set: DeviceSet = {
        devices,
        complete: aged.complete,
        leftOut: leftOut > 0 ? { devices: leftOut, bound, listed: aged.devices } : undefined,
      }
      this.#bounded = { of: aged, most, set }
    }
    return this.#bounded.set
  }

  #select({ devices, units: all }: AgedSet, most: number): ReadonlyMap<string, DiscoveredDevice> {
    if (all <= most) return devices
    const { rankOf } = this.#options.rankDevices(this.#configuration)
    const selection = new DeviceSelection<[string, DiscoveredDevice]>(most)
    for (const [id, found] of devices) {
      const units = deviceUnits(found.device)
      selection.add({ id, rank: rankOf(id, found.shared, units), units, value: [id, found] })
    }
    return new Map(selection.kept())
  }

  /** The units of all lists, whose devices can be the same. */
  get listed(): number {
    return this.lists.reduce((sum, { devices = [] }) => sum + listUnits(devices), 0)
  }

  /**
   * Forgets devices of the lists beyond a number of units, and asks for these lists again later.
   * @param most at least the units of the devices that are served
   */
  trim(most: number, share: DeviceShare | undefined): void {
    const { rankOf } = this.#options.rankDevices(this.#configuration)
    const { devices } = this.deviceSet(share)
    const lists = trimLists(this.lists, most, devices, (id, shared, units) =>
      rankOf(id, shared, units),
    )
    this.#orphans = this.#orphans.map((list) => lists.get(list) ?? list)
    for (const session of this.#sessions.values())
      session.trim(lists.get(session.list) ?? session.list)
    // Nothing keeps the lists before.
    this.#readmission.follow(this.lists)
    this.#aged = undefined
    this.#bounded = undefined
    this.#askAgainLater()
  }

  /** There may be room later: nothing else tells the agent of devices that it has forgotten. */
  #askAgainLater(): void {
    if (this.#isToAskAgain) return
    this.#isToAskAgain = true
    runAfter(this.#options.clock, ASK_AGAIN_MS, this.#stop.signal, () => {
      this.#isToAskAgain = false
      if (this.#stop.signal.aborted) return
      for (const session of this.#sessions.values())
        if (session.list.forgotten !== undefined) session.restart()
    })
  }

  /** The devices of all lists: the same object until the lists change, or time changes them. */
  get #agedSet(): AgedSet {
    const { clock } = this.#options
    const now = clock.monotonicMs()
    const { lists } = this
    const aged = this.#aged
    if (aged !== undefined && equal(aged.lists, lists) && now < (aged.set.changesAt ?? Infinity))
      return aged.set
    const set = ageDevices(lists, now, this.#options, this.#waitingSince, aged?.set.devices)
    this.#aged = { lists, set }
    return set
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
        mostDevices: this.#options.bounds.perConfiguration,
        rank: (followed, shared) => {
          const { rankOf } = this.#options.rankDevices(followed)
          return (id, units) => rankOf(id, shared, units)
        },
        log: this.#options.log.child({ endpoint: uid }),
        onChange: () => this.#changed(),
      })
      this.#sessions.set(uid, session)
      this.#seniority.add(uid)
    }
    const isWaiting = endpoints.size === 0 && !this.#isAnswered
    const waitingSince = isWaiting ? (this.#waitingSince ?? clock.monotonicMs()) : undefined
    if (waitingSince !== this.#waitingSince) this.#aged = undefined
    this.#waitingSince = waitingSince
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
    this.#stop.abort()
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
      this.#wakeAt(this.#agedSet.changesAt)
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

function equal(a: readonly EndpointList[], b: readonly EndpointList[]): boolean {
  return a.length === b.length && a.every((list, index) => list === b[index])
}
