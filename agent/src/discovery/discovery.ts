import type { Configuration } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { Listeners, runAfter } from '@akrijs/runtime'
import { asReported } from '../access/handler-access.js'
import type { Cluster, ObjectCache } from '../cluster/cluster.js'
import { type HashedDevice, handlerOfUid } from '../handlers/handler-endpoint.js'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import { DEVICE_BOUNDS, type DeviceBounds } from '../limits.js'
import {
  type AgeingOptions,
  admitDevices,
  ageDevices,
  type DeviceSet,
  type EndpointList,
  isSameSet,
  type ListedDevices,
  NO_DEVICES,
  RANK,
  type RankOf,
} from './device-set.js'
import { DiscoverySession, type SessionOptions, type SessionStatus } from './discovery-session.js'

interface DiscoveryOptions
  extends Partial<AgeingOptions>,
    Pick<SessionOptions, 'access' | 'clock' | 'log' | 'observer'> {
  readonly registry: HandlerRegistry
  readonly cluster: Pick<Cluster, 'resolveProperties' | 'onPropertiesChanged'>
  /** The accepted Configurations. */
  readonly configurations: Omit<ObjectCache<Configuration>, 'synced'>
  /** Ranks the devices of a Configuration by its present Instances. */
  rankDevices(configuration: Configuration): RankOf
  /** @default DEVICE_BOUNDS */
  readonly bounds?: DeviceBounds
  /** @default Math.random */
  readonly random?: () => number
}

export interface DiscoveryStatus {
  readonly handler: string
  readonly endpoints: readonly SessionStatus[]
}

/** A list that the checkpoint keeps. */
export interface KeptList extends Pick<EndpointList, 'endpoint' | 'shared'> {
  readonly devices: readonly HashedDevice[]
}

/** What the checkpoint keeps of each Configuration. */
export type DiscoverySnapshot = Readonly<
  Record<ObjectKey, { readonly uid: string; readonly lists: readonly KeptList[] }>
>

/**
 * The uid of a session that stands for the endpoints that may come: until one of them answers, or
 * the grace period ends, a missing device is not gone.
 */
const NONE_YET = ''

/** A Configuration, with the lists of the endpoints of its handler. */
interface FollowedConfiguration extends ListedDevices {
  /** With its last edit. */
  configuration: Configuration
  listed: ListedDevices['listed']
  /** By the uid of the endpoint, in the order in which the endpoints came. */
  readonly sessions: Map<string, DiscoverySession>
  /** The devices to serve. */
  devices: DeviceSet
  /** Time alone changes the devices too. */
  timer: AbortController
}

/** Asks the handlers for each Configuration and knows the devices of each. */
export class Discovery {
  readonly #options: Required<DiscoveryOptions>
  readonly #followed = new Map<ObjectKey, FollowedConfiguration>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #stop = new AbortController()
  /** The end of the sessions that were closed. */
  #closing: Promise<unknown> = Promise.resolve()

  constructor(options: DiscoveryOptions) {
    const ageing = { unhealthyAfterMs: 30_000, removeAfterMs: 300_000 }
    this.#options = { ...ageing, bounds: DEVICE_BOUNDS, random: Math.random, ...options }
  }

  /** Takes over the checkpoint. Call it before {@link start}. */
  async restore(snapshot: DiscoverySnapshot): Promise<void> {
    const { access, configurations } = this.#options
    for (const [text, { uid, lists }] of Object.entries(snapshot)) {
      const key = text as ObjectKey
      const configuration = configurations.get(key)
      // It may have gone while no agent ran.
      if (configuration?.metadata.uid !== uid) continue
      const followed = this.#begin(key, configuration)
      for (const { endpoint, shared, devices: reported } of lists) {
        const { devices } = await access.admit(handlerOfUid(endpoint), reported)
        this.#add(followed, endpoint, devices, shared)
      }
      this.#follow(key)
    }
  }

  start(): void {
    const { cluster, configurations, registry } = this.#options
    const { signal } = this.#stop
    configurations.onChange((key) => this.#follow(key), signal)
    cluster.onPropertiesChanged((key) => {
      for (const session of this.#followed.get(key)?.sessions.values() ?? []) session.restart()
    }, signal)
    registry.onChange(({ name, reregistered }) => {
      for (const [key, { configuration, sessions }] of this.#followed) {
        if (configuration.spec.discoveryHandler.name !== name) continue
        // A registration that is repeated without a pause must not make work for each
        // Configuration.
        if (reregistered !== undefined) sessions.get(reregistered.uid)?.wake()
        else this.#follow(key)
      }
    }, signal)
    const keys = [...this.#followed.keys(), ...configurations.list().map(keyOf)]
    for (const key of new Set(keys)) this.#follow(key)
  }

  /** The devices to serve now: the same object until the set changes, for long work to see. */
  deviceSet(key: ObjectKey): DeviceSet {
    return this.#followed.get(key)?.devices ?? NO_DEVICES
  }

  status(key: ObjectKey): DiscoveryStatus | undefined {
    const followed = this.#followed.get(key)
    if (followed === undefined) return undefined
    const running = [...followed.sessions.values()].filter(({ isRunning }) => isRunning)
    const { name: handler } = followed.configuration.spec.discoveryHandler
    return { handler, endpoints: running.map(({ status }) => status) }
  }

  /**
   * The devices that are served, as reported, because other rules may hold after a restart. Each is
   * in the list that describes it: so the bounds of devices bound the checkpoint.
   */
  snapshot(): DiscoverySnapshot {
    const listsOf = ({ sessions, devices: served }: FollowedConfiguration) =>
      Array.from(sessions.values()).flatMap(({ list: { endpoint, shared, devices } }) => {
        if (devices === undefined || endpoint === NONE_YET) return []
        const kept = devices.filter(({ id }) => served.devices.get(id)?.endpoint === endpoint)
        return { endpoint, shared, devices: kept.map(asReported) }
      })
    return Object.fromEntries(
      Array.from(this.#followed, ([key, followed]) => {
        const { uid } = followed.configuration.metadata
        return [key, { uid, lists: listsOf(followed) }]
      }),
    )
  }

  /** Calls back when the devices or the status of a Configuration may have changed. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const followed of this.#followed.values()) this.#end(followed)
    await this.#closing
  }

  /** Makes the sessions of a Configuration follow the Configuration and the registry. */
  #follow(key: ObjectKey): void {
    if (this.#stop.signal.aborted) return
    const { configurations, registry } = this.#options
    const found = configurations.get(key)
    const configuration = found?.metadata.deletionTimestamp === undefined ? found : undefined
    const before = this.#followed.get(key)
    if (before && before.configuration.metadata.uid !== configuration?.metadata.uid) {
      this.#end(before)
      // It leaves room to the devices of others.
      this.#admit(before)
      this.#listeners.tell(key)
    }
    if (configuration === undefined) return
    const followed = this.#followed.get(key) ?? this.#begin(key, configuration)
    followed.configuration = configuration
    const all = registry.endpoints(configuration.spec.discoveryHandler.name)
    const endpoints = new Map(all.map((endpoint) => [endpoint.uid, endpoint]))
    for (const [uid, session] of followed.sessions) {
      session.configure(configuration)
      if (!endpoints.has(uid)) session.leave()
    }
    for (const [uid, endpoint] of endpoints)
      (followed.sessions.get(uid) ?? this.#add(followed, uid)).follow(endpoint)
    this.#changed(followed)
  }

  #begin(key: ObjectKey, configuration: Configuration): FollowedConfiguration {
    const followed: FollowedConfiguration = {
      ...{ key, configuration, devices: NO_DEVICES, sessions: new Map() },
      listed: { ...NO_DEVICES, leftOut: 0, changesAt: Number.POSITIVE_INFINITY },
      timer: new AbortController(),
      ranks: () => {
        const rankOf = this.#options.rankDevices(followed.configuration)
        const { devices } = followed.devices
        // A device that was admitted comes before new devices: its Instance may not be there yet.
        return (id, shared) => {
          const rank = rankOf(id, shared)
          return rank === RANK.new && devices.has(id) ? RANK.served : rank
        }
      },
    }
    this.#followed.set(key, followed)
    this.#add(followed, NONE_YET, [])
    return followed
  }

  /** Adds a session without an endpoint. */
  #add(
    followed: FollowedConfiguration,
    endpoint: string,
    devices?: EndpointList['devices'],
    shared = false,
  ): DiscoverySession {
    const { clock, bounds, log } = this.#options
    const { key, configuration, sessions, ranks } = followed
    const last = { endpoint, shared, devices, leftOut: undefined, lostSince: clock.monotonicMs() }
    const session = new DiscoverySession(configuration, last, {
      ...this.#options,
      mostDevices: bounds.perConfiguration,
      log: log.child({ configuration: key, endpoint }),
      ranks,
      onChange: () => this.#changed(followed),
    })
    sessions.set(endpoint, session)
    return session
  }

  #end({ key, timer, sessions }: FollowedConfiguration): void {
    this.#followed.delete(key)
    timer.abort()
    for (const session of sessions.values()) this.#close(session)
  }

  #close(session: DiscoverySession): void {
    const before = this.#closing
    this.#closing = session.close().then(() => before)
  }

  /** A bug in here is a bug on the way of this Configuration: the others go on. */
  #changed(followed: FollowedConfiguration): void {
    const { key, timer } = followed
    if (this.#followed.get(key) !== followed) return
    const { clock, log } = this.#options
    try {
      const now = clock.monotonicMs()
      followed.listed = ageDevices(this.#listsOf(followed, now), now, this.#options)
      timer.abort()
      followed.timer = new AbortController()
      const { changesAt } = followed.listed
      if (changesAt < Number.POSITIVE_INFINITY)
        runAfter(clock, changesAt - now, followed.timer.signal, () => this.#changed(followed))
      this.#admit(followed)
    } catch (error) {
      log.error({ configuration: key, err: error }, 'device set not made')
    }
    this.#listeners.tell(key)
  }

  /** The lists of the endpoints. Drops those without an endpoint that no longer count. */
  #listsOf(followed: FollowedConfiguration, now: number): readonly EndpointList[] {
    const { sessions, configuration } = followed
    const { name } = configuration.spec.discoveryHandler
    const isAnswered = [...sessions.values()].some(
      ({ status: { state } }) => state.phase === 'open' && state.listed,
    )
    for (const [uid, session] of sessions) {
      const { isRunning, list } = session
      // After an answer, the handler before an edit is no longer asked for, nor waited for.
      const isOfOther = isAnswered && handlerOfUid(uid) !== name
      const goneAt = (list.lostSince ?? now) + this.#options.removeAfterMs
      if (isRunning || (list.devices !== undefined && !isOfOther && now < goneAt)) continue
      sessions.delete(uid)
      this.#close(session)
    }
    return Array.from(sessions.values(), ({ list }) => list)
  }

  /** Admits devices after a change of one Configuration, which may leave room to others. */
  #admit(changed: FollowedConfiguration): void {
    const { listed, devices: before } = changed
    const devices = listed.devices.size + (before.leftOut?.listed ?? before.devices).size
    // A flood of Configurations without devices costs nothing.
    const all = devices === 0 ? [changed] : [...this.#followed.values()]
    for (const [followed, set] of admitDevices(all, this.#options.bounds)) {
      if (isSameSet(set, followed.devices)) continue
      followed.devices = set
      if (followed !== changed) this.#listeners.tell(followed.key)
    }
  }
}
