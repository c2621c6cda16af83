import type { Configuration } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { Cluster, ObjectCache } from '../cluster/cluster.js'
import { handlerOfUid } from '../handlers/handler-endpoint.js'
import { DEVICE_BOUNDS, type DeviceBounds } from '../limits.js'
import {
  ConfigurationDiscovery,
  type ConfigurationDiscoveryOptions,
  type DiscoveryStatus,
  type KeptList,
} from './configuration-discovery.js'
import {
  type AgeingOptions,
  admitDevices,
  type DeviceSet,
  NO_DEVICES,
  servedSet,
} from './device-set.js'

interface DiscoveryOptions
  extends Partial<AgeingOptions>,
    Pick<
      ConfigurationDiscoveryOptions,
      'registry' | 'access' | 'clock' | 'log' | 'observer' | 'rankDevices'
    > {
  readonly cluster: Pick<Cluster, 'resolveProperties' | 'onPropertiesChanged'>
  /** The accepted Configurations. */
  readonly configurations: ObjectCache<Configuration>
  /** @default DEVICE_BOUNDS */
  readonly bounds?: DeviceBounds
  /** @default Math.random */
  readonly random?: () => number
}

/** What the checkpoint keeps of each Configuration. */
export type DiscoverySnapshot = Readonly<
  Record<ObjectKey, { readonly uid: string; readonly lists: readonly KeptList[] }>
>

/** Asks the handlers for each Configuration and knows the devices of each. */
export class Discovery {
  readonly #options: Required<DiscoveryOptions>
  readonly #discoveries = new Map<ObjectKey, ConfigurationDiscovery>()
  /** Those with devices: a flood of Configurations without devices costs nothing. */
  readonly #listing = new Map<ObjectKey, ConfigurationDiscovery>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #stop = new AbortController()
  #closing: Promise<unknown> = Promise.resolve()

  constructor(options: DiscoveryOptions) {
    const ageing = { unhealthyAfterMs: 30_000, removeAfterMs: 300_000 }
    this.#options = { ...ageing, bounds: DEVICE_BOUNDS, random: Math.random, ...options }
  }

  /** Takes over the checkpoint. Call it before {@link start}. */
  async restore(snapshot: DiscoverySnapshot): Promise<void> {
    const { access, configurations } = this.#options
    const admitted = async ({ devices = [], ...list }: KeptList) => ({
      ...list,
      devices: (await access.admit(handlerOfUid(list.endpoint), devices)).devices,
    })
    for (const [text, { uid, lists }] of Object.entries(snapshot)) {
      const key = text as ObjectKey
      const restored = await Promise.all(lists.map(admitted))
      const configuration = configurations.get(key)
      // It may have gone while no agent ran.
      if (configuration?.metadata.uid !== uid) continue
      this.#begin(key, configuration, restored)
      this.#follow(key)
    }
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
    const keys = [...this.#discoveries.keys(), ...configurations.list().map(keyOf)]
    for (const key of new Set(keys)) this.#follow(key)
  }

  /**
   * The devices to serve now; none, and incomplete, for a Configuration that is not followed. The
   * same object until the set changes.
   */
  deviceSet(key: ObjectKey): DeviceSet {
    return this.#discoveries.get(key)?.deviceSet ?? NO_DEVICES
  }

  status(key: ObjectKey): DiscoveryStatus | undefined {
    return this.#discoveries.get(key)?.status
  }

  snapshot(): DiscoverySnapshot {
    return Object.fromEntries(
      [...this.#discoveries].map(([key, { configuration, servedLists }]) => [
        key,
        { uid: configuration.metadata.uid, lists: servedLists },
      ]),
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
    if (before && before.configuration.metadata.uid !== configuration.metadata.uid)
      this.#forget(key)
    const discovery = this.#discoveries.get(key) ?? this.#begin(key, configuration)
    discovery.follow(configuration)
  }

  #begin(
    key: ObjectKey,
    configuration: Configuration,
    restored: readonly KeptList[] = [],
  ): ConfigurationDiscovery {
    const discovery = new ConfigurationDiscovery(configuration, restored, {
      ...this.#options,
      mostDevices: this.#options.bounds.perConfiguration,
      log: this.#options.log.child({ configuration: key }),
      onChange: () => {
        if (this.#discoveries.get(key) !== discovery) return
        this.#admit(key)
        this.#listeners.tell(key)
      },
    })
    this.#discoveries.set(key, discovery)
    return discovery
  }

  #forget(key: ObjectKey): void {
    const closing = this.#discoveries.get(key)?.close()
    this.#discoveries.delete(key)
    if (closing === undefined) return
    this.#admit(key)
    this.#closing = this.#closing.then(() => closing)
  }

  /** Admits devices after a change of one Configuration, which may leave room to others. */
  #admit(changed: ObjectKey): void {
    const discovery = this.#discoveries.get(changed)
    const hadDevices = this.#listing.delete(changed)
    if (discovery !== undefined && discovery.listed.devices.size > 0)
      this.#listing.set(changed, discovery)
    else discovery?.admit(servedSet(discovery.listed))
    if (!hadDevices && !this.#listing.has(changed)) return
    for (const [key, set] of admitDevices(this.#listing, this.#options.bounds)) {
      const isChanged = this.#listing.get(key)?.admit(set)
      if (isChanged === true && key !== changed) this.#listeners.tell(key)
    }
  }
}
