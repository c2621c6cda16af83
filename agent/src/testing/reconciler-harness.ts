import type {
  Configuration,
  ConfigurationManifest,
  InstanceName,
  Offer,
  SlotName,
} from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect } from 'vitest'
import type { ObjectCache } from '../cluster/cluster.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { InstanceIndex } from '../instances/instance-index.js'
import { deviceDigest } from '../instances/instance-name.js'
import { InstanceReconciler } from '../instances/instance-reconciler.js'
import type { NameRequest } from '../instances/resource-names.js'
import type { InstancePlugins, ServedInstance } from '../instances/served-instance.js'
import { DEVICE_BOUNDS } from '../limits.js'
import { noopObserver } from '../report/observer.js'
import { AllocationLedger } from '../slots/allocation-ledger.js'
import type { LostDevice } from '../slots/slot-book.js'
import { MemoryCluster } from './memory-cluster.js'
import { draftOf, manifest, NODE, seen } from './objects.js'

/** The reconciler of a node, on a cluster in memory, with plugins that note what they are asked. */
export class ReconcilerHarness {
  readonly cluster: MemoryCluster
  readonly wanted: ConfigurationManifest
  readonly node: NodeName
  readonly clock = new ManualClock(1_000_000)
  /** What plugins, the book and the cluster were asked for, in order. */
  calls: string[] = []
  /** Devices that were gone before they were served. */
  readonly lost: LostDevice[] = []
  /** The Instance that cannot be served. */
  failing: string | undefined
  /** The names of resources that are refused. */
  readonly refused = new Set<string>()
  /** How many resources were offered when a name was last asked for. */
  offered = 0
  /** Of all plugins. */
  registered: Promise<void> = Promise.resolve()
  /** Reports new devices to the queue of the reconciler. */
  devicesChanged = () => {}
  /** Reports a device that is gone while containers use it. */
  deviceLost: (device: LostDevice) => void = () => {}
  /** Ends the agent. */
  readonly stop = new AbortController()
  devices = seen('foo0')
  readonly ledger: AllocationLedger
  readonly served = new Map<InstanceName, ServedInstance>()
  readonly plugins: InstancePlugins = {
    serveConfiguration: (which) => {
      this.calls.push(`serve ${keyParts(which).name}`)
      return this.registered
    },
    withdrawConfiguration: async (which) => void this.calls.push(`withdraw ${which}`),
    serve: (instance, hasResource) => {
      const { name, healthy } = instance
      const how = [!healthy && ' unhealthy', !hasResource && ' by its Configuration']
      this.calls.push(`serve ${name}${how.filter(Boolean).join('')}`)
      if (name === this.failing) throw new TypeError(`${name} cannot be served`)
      this.served.set(name, instance)
      return this.registered
    },
    withdraw: async (name, isGone) => {
      this.calls.push(`withdraw ${isGone ? 'gone ' : ''}${name}`)
      this.served.delete(name)
    },
    onRegistrationChange: () => {},
  }
  configuration: Configuration
  readonly #instances: InstanceIndex
  reconciler: InstanceReconciler

  /** @param wanted the only Configuration of the cluster */
  constructor(cluster: MemoryCluster, wanted: ConfigurationManifest, node = NODE) {
    this.cluster = cluster
    this.wanted = wanted
    this.node = node
    this.ledger = new AllocationLedger({ node, pods: undefined })
    this.configuration = cluster.configurations.list()[0] ?? expect.fail()
    const { signal } = new AbortController()
    this.#instances = new InstanceIndex(cluster.instances, node, signal)
    cluster.instances.onChange((key) => this.calls.push(`changed ${key.split('/')[1]}`), signal)
    this.reconciler = this.make()
  }

  static async open(name?: ConfigurationManifest['name']): Promise<ReconcilerHarness> {
    const cluster = new MemoryCluster()
    const wanted = { ...manifest(), ...(name && { name }) }
    await cluster.apply(wanted)
    return new ReconcilerHarness(cluster, wanted)
  }

  /** Another reconciler, as after a restart of the agent. */
  make(
    configurations: ObjectCache<Configuration> = this.cluster.configurations,
    bounds = DEVICE_BOUNDS,
  ): InstanceReconciler {
    const { signal } = new AbortController()
    const options = {
      ...{ cluster: this.cluster, instances: this.#instances, bounds, node: this.node },
      configurations: new AcceptedConfigurations(configurations, signal),
      ...{ plugins: this.plugins, ledger: this.ledger, clock: this.clock, log: silentLogger },
      book: {
        lose: (device: LostDevice) => void this.lost.push(device),
        onLoss: (listener: (device: LostDevice, isOver: boolean) => void) => {
          this.deviceLost = (device) => listener(device, false)
        },
      },
      discovery: {
        deviceSet: () => this.devices,
        onChange: (listener: (configuration: ObjectKey) => void) => {
          this.devicesChanged = () => listener(this.key)
        },
      },
      ...{ observer: noopObserver, reconciled: async () => {} },
      signal: this.stop.signal,
      random: () => 0.5,
      names: {
        admit: ({ name, offered, isKnown }: NameRequest) => {
          this.offered = offered
          const full = { why: 'full', retryInMs: 60_000 } as const
          return this.refused.has(name) && !isKnown ? full : undefined
        },
      },
    }
    this.reconciler = new InstanceReconciler(options)
    return this.reconciler
  }

  get key(): ObjectKey {
    return keyOf(this.configuration)
  }

  /** Reconciles with these devices. @default those before */
  reconcile(devices = this.devices) {
    this.devices = devices
    return this.reconciler.reconcile(this.key)
  }

  /** What is asked for during some work. */
  async callsOf(work: () => Promise<unknown>): Promise<string[]> {
    this.calls = []
    await work()
    return this.calls
  }

  edit(spec: { capacity?: number; offer?: Offer; brokerProperties?: Record<string, string> }) {
    return this.cluster.apply({ ...this.wanted, spec: { ...this.wanted.spec, ...spec } })
  }

  name(id: string): InstanceName {
    return `${this.wanted.name}-${deviceDigest(id, { shared: true })}` as InstanceName
  }

  at(id: string): ObjectKey {
    return objectKey('default', this.name(id))
  }

  /** The spec of the Instance of a device. */
  spec(id = 'foo0') {
    return this.cluster.instances.get(this.at(id))?.spec
  }

  slot(id: string, index = 0): SlotName {
    return `${this.name(id)}-${index}` as SlotName
  }

  /**
   * A container has a slot of the device by a resource, under the id of the device.
   * @param resource @default that of the Configuration
   */
  allocate(id: string, resource: string = this.wanted.name, slot = this.slot(id)): void {
    this.ledger.record({ slot, resourceName: `akri.sh/${resource}`, id })
  }

  /** Another program creates the Instance of a device. */
  createOfOthers(id: string, nodes: readonly NodeName[], annotations = {}) {
    const draft = draftOf(this.configuration, 1, nodes, '')
    return this.cluster.createInstance({ ...draft, name: this.name(id), annotations })
  }
}
