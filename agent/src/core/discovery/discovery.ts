import type { Configuration } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { type Clock, Listeners, type Logger } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'
import type { Cluster, ObjectCache } from '../../ports/cluster.js'
import { handlerOfUid } from '../../ports/handler-endpoint.js'
import { type AgentObserver, noopObserver } from '../../ports/observer.js'
import type { HandlerAccess } from '../access/handler-access.js'
import {
  ConfigurationDiscovery,
  type DiscoveryStatus,
  type RankDevices,
} from './configuration-discovery.js'
import type { AgeingOptions, EndpointList } from './device-ageing.js'
import { DEVICE_BOUNDS, type DeviceBounds } from './device-bounds.js'
import type { DeviceSet } from './device-set.js'
import {
  type DeviceDemand,
  type DeviceShare,
  deviceShares,
  divideUnits,
  type UnitDemand,
} from './device-shares.js'
import { listUnits } from './device-units.js'
import type { HandlerRegistry } from './handler-registry.js'
import { LISTS_PER_DEVICE } from './list-memory.js'

interface DiscoveryOptions extends Partial<AgeingOptions> {
  readonly cluster: Pick<Cluster, 'resolveProperties' | 'onPropertiesChanged'>
  /** The accepted Configurations. */
  readonly configurations: ObjectCache<Configuration>
  readonly registry: HandlerRegistry
  /** What handlers may give to containers. */
  readonly access: Pick<HandlerAccess, 'admit'>
  readonly clock: Clock
  readonly log: Logger
  /** @default none */
  readonly observer?: AgentObserver
  /** @default DEVICE_BOUNDS */
  readonly bounds?: DeviceBounds
  rankDevices: RankDevices
}

/** What the checkpoint keeps of each Configuration. */
export type DiscoverySnapshot = Readonly<
  Record<ObjectKey, { readonly uid: string; readonly lists: readonly WrittenList[] }>
>

/** A list in the checkpoint, as reported: other rules may hold after a restart. */
type WrittenList = Omit<RestoredList, 'devices'> & {
  readonly devices: readonly Device[] | undefined
}

type RestoredList = Omit<EndpointList, 'remembered' | 'leftOut' | 'lostSince'>

/** The lists of the checkpoint that no discovery has taken over. */
type RestoredLists = Map<
  ObjectKey,
  { readonly uid: string; readonly lists: readonly RestoredList[] }
>

/** What a Configuration takes of the bounds of the node, if it gets all. */
interface Demand {
  readonly units: number
  readonly slots: number
  /** The units of all lists, as far as one Configuration may have them. */
  readonly listed: number
}

/** Asks the handlers for each Configuration and knows the devices of each. */
export class Discovery {
  readonly #options: Required<DiscoveryOptions>
  readonly #random: () => number
  readonly #discoveries = new Map<ObjectKey, ConfigurationDiscovery>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #stop = new AbortController()
  #closing: Promise<unknown> = Promise.resolve()
  #restored: RestoredLists = new Map()
  /** What the bounds of the node leave to each Configuration; undefined while all devices fit. */
  #shares: ReadonlyMap<ObjectKey, DeviceShare> | undefined
  /** The demand of each Configuration at its last change, and the sum of all. */
  readonly #demands = new Map<ObjectKey, Demand>()
  #sum: Demand = NO_DEMAND

  constructor(options: DiscoveryOptions, { random = Math.random } = {}) {
    this.#random = random
    this.#options = {
      unhealthyAfterMs: 30_000,
      removeAfterMs: 300_000,
      observer: noopObserver,
      bounds: DEVICE_BOUNDS,
      ...options,
    }
  }

  /** Takes over the checkpoint. Call it before {@link start}. */
  async restore(snapshot: DiscoverySnapshot): Promise<void> {
    const { access } = this.#options
    const admitted = async ({ devices, ...list }: WrittenList) => ({
      ...list,
      devices: devices && (await access.admit(handlerOfUid(list.endpoint), devices)),
    })
    const restored = Object.entries(snapshot).map(async ([key, { uid, lists }]) => {
      const admittedLists = await Promise.all(lists.map(admitted))
      return [key as ObjectKey, { uid, lists: admittedLists }] as const
    })
    this.#restored = new Map(await Promise.all(restored))
  }

  start(): void {
    const { cluster, configurations, registry } = this.#options
    const { signal } = this.#stop
    configurations.onChange((key) => this.#follow(key), signal)
    cluster.onPropertiesChanged((key) => this.#discoveries.get(key)?.restart(), signal)
    registry.onChange(({ name, reregistered }) => {
      for (const [key, discovery] of this.#discoveries) {
        if (discovery.handler !== name) continue
        // A registration that is repeated without a pause must not make work for each
        // Configuration.
        if (reregistered !== undefined) discovery.wake(reregistered)
        else this.#follow(key)
      }
    }, signal)
    for (const configuration of configurations.list()) this.#follow(keyOf(configuration))
    // What is left is of Configurations that went while no agent ran.
    this.#restored.clear()
  }

  /**
   * The devices to serve now; none, and incomplete, for a Configuration that is not followed. The
   * same object until the devices change.
   */
  deviceSet(key: ObjectKey): DeviceSet {
    return this.#discoveries.get(key)?.deviceSet(this.#shares?.get(key)) ?? NOT_FOLLOWED
  }

  status(key: ObjectKey): DiscoveryStatus | undefined {
    return this.#discoveries.get(key)?.status
  }

  /**
   * The lists with the devices that are served, each in the list that describes it: so the bounds
   * of devices bound the checkpoint.
   */
  snapshot(): DiscoverySnapshot {
    const current = [...this.#discoveries].map(([key, { uid, lists }]) => {
      const served = this.deviceSet(key).devices
      const written = lists.flatMap(({ endpoint, shared, devices }) =>
        devices === undefined
          ? []
          : {
              endpoint,
              shared,
              devices: devices.filter(({ id }) => served.get(id)?.endpoint === endpoint),
            },
      )
      return [key, { uid, lists: written }] as const
    })
    // Before the start no discovery has restored lists: they outlive a second restart too.
    const all: RestoredLists = new Map(this.#restored)
    for (const [key, lists] of current) all.set(key, lists)
    return Object.fromEntries(
      [...all].map(([key, { uid, lists }]) => [key, { uid, lists: lists.map(asReported) }]),
    )
  }

  /** Calls back when the devices or the status of a Configuration may have changed. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const key of [...this.#discoveries.keys()]) this.#forget(key)
    await this.#closing
  }

  /** Makes the discovery of a Configuration follow the Configuration and the registry. */
  #follow(key: ObjectKey): void {
    if (this.#stop.signal.aborted) return
    const configuration = this.#options.configurations.get(key)
    const before = this.#discoveries.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      this.#forget(key)
      if (before !== undefined) this.#listeners.tell(key)
      return
    }
    if (before !== undefined && before.uid !== configuration.metadata.uid) this.#forget(key)
    const discovery = this.#discoveries.get(key) ?? this.#begin(key, configuration)
    discovery.follow(configuration)
  }

  #begin(key: ObjectKey, configuration: Configuration): ConfigurationDiscovery {
    const { cluster, access, clock, log } = this.#options
    const restored = this.#restored.get(key)
    this.#restored.delete(key)
    const lostSince = clock.monotonicMs()
    const lists = restored?.uid === configuration.metadata.uid ? restored.lists : []
    const discovery = new ConfigurationDiscovery(
      configuration,
      lists.map((list) => ({ ...list, leftOut: 0, remembered: true, lostSince })),
      {
        ...this.#options,
        random: this.#random,
        log: log.child({ configuration: key }),
        resolveProperties: (changed) => cluster.resolveProperties(changed),
        admit: (handler, devices) => access.admit(handler, devices),
        onChange: () => {
          if (this.#discoveries.get(key) !== discovery) return
          if (this.#count(key)) this.#divide()
          this.#trim(discovery)
          this.#listeners.tell(key)
        },
      },
    )
    this.#discoveries.set(key, discovery)
    return discovery
  }

  #forget(key: ObjectKey): void {
    const closing = this.#discoveries.get(key)?.close()
    this.#discoveries.delete(key)
    if (closing === undefined) return
    if (this.#count(key)) this.#divide()
    this.#closing = this.#closing.then(() => closing)
  }

  /**
   * Counts the demand of a Configuration again. Others are not asked: a flood of Configurations
   * must not make each change slow.
   * @returns whether the division depends on the change
   */
  #count(key: ObjectKey): boolean {
    const discovery = this.#discoveries.get(key)
    const before = this.#demands.get(key) ?? NO_DEMAND
    const now = discovery === undefined ? NO_DEMAND : this.#demandOf(discovery)
    if (discovery === undefined) this.#demands.delete(key)
    else this.#demands.set(key, now)
    this.#sum = {
      units: this.#sum.units + now.units - before.units,
      slots: this.#sum.slots + now.slots - before.slots,
      listed: this.#sum.listed + now.listed - before.listed,
    }
    return now.units !== before.units || now.slots !== before.slots
  }

  #demandOf({ units, capacity, listed }: ConfigurationDiscovery): Demand {
    const most = LISTS_PER_DEVICE * this.#options.bounds.perConfiguration
    return { units, slots: units * capacity, listed: Math.min(listed, most) }
  }

  /** Bounds the memory of the lists of all endpoints. */
  #trim(changed: ConfigurationDiscovery): void {
    const { perNode } = this.#options.bounds
    const isBeyond = changed.listed > this.#demandOf(changed).listed
    if (!isBeyond && this.#sum.listed <= LISTS_PER_DEVICE * perNode) return
    const demands = new Map<ObjectKey, UnitDemand>()
    for (const [key, discovery] of this.#discoveries)
      demands.set(key, { units: this.#demandOf(discovery).listed, served: 0, servedUnits: 0 })
    for (const [key, demand] of demands) {
      const served = listUnits(
        [...this.deviceSet(key).devices.values()].map(({ device }) => device),
      )
      // A second list keeps the devices when the endpoint of the first list goes.
      const kept = Math.min(demand.units, LISTS_PER_DEVICE * served)
      demands.set(key, { ...demand, served: kept, servedUnits: kept })
    }
    let isChanged = false
    for (const [key, most] of divideUnits(demands, LISTS_PER_DEVICE * perNode)) {
      const discovery = this.#discoveries.get(key)
      if (discovery !== undefined && discovery.listed > most)
        discovery.trim(most, this.#shares?.get(key))
      if (this.#count(key)) isChanged = true
    }
    if (isChanged) this.#divide()
  }

  /** Divides the bounds of the node among the Configurations, if there are too many devices. */
  #divide(): void {
    const { bounds } = this.#options
    const before = this.#shares
    const fits = this.#sum.units <= bounds.perNode && this.#sum.slots <= bounds.slots
    if (fits && before === undefined) return
    const demandOf = ({ units, capacity, served }: ConfigurationDiscovery): DeviceDemand => {
      return { units, capacity, ...served }
    }
    this.#shares = fits
      ? undefined
      : deviceShares(
          new Map([...this.#discoveries].map(([key, each]) => [key, demandOf(each)])),
          bounds,
        )
    for (const key of this.#discoveries.keys())
      if (before?.get(key)?.most !== this.#shares?.get(key)?.most) this.#listeners.tell(key)
  }
}

function asReported({ devices, ...list }: RestoredList): WrittenList {
  return { ...list, devices: devices?.map((device) => device.reported ?? device) }
}

const NO_DEMAND: Demand = { units: 0, slots: 0, listed: 0 }
const NOT_FOLLOWED: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }
