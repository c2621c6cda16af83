import type { InstanceName, NodeName, ObjectKey, SlotName } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/sdk'
import { ResourceTakenError } from '../errors.js'
import type { InstancePlugins, ServedInstance } from '../instances/served-instance.js'
import type { Cluster } from '../ports/cluster.js'
import type { Kubelet } from '../ports/kubelet.js'
import { slotIndex } from '../slots/slot-usage.js'
import { InstancePlugin } from './instance-plugin.js'
import { DevicePluginServer } from './plugin-server.js'

export interface DevicePluginsOptions {
  readonly cluster: Cluster
  readonly kubelet: Kubelet
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
}

interface RunningPlugin {
  readonly behaviour: InstancePlugin
  readonly server: DevicePluginServer
  readonly started: Promise<void>
}

/** How often each plugin looks whether it told the kubelet the truth, in milliseconds, should a change have been missed. */
const REFRESH_MS = 60_000

/** The device plugins of this node. */
export class DevicePlugins implements InstancePlugins {
  readonly #options: DevicePluginsOptions
  readonly #plugins = new Map<InstanceName, RunningPlugin>()
  readonly #claims = new Map<SlotName, number>()
  readonly #stop = new AbortController()
  readonly #refreshing: Promise<void>

  constructor(options: DevicePluginsOptions) {
    this.#options = options
    options.cluster.instances.onChange((key) => this.#instanceChanged(key), this.#stop.signal)
    this.#refreshing = this.#refresh()
  }

  async serve(instance: ServedInstance): Promise<void> {
    const running = this.#plugins.get(instance.name)
    if (running !== undefined) {
      const { key } = running.behaviour.instance
      // The resource's name has no namespace: of two Instances of one name the first is served.
      if (key !== instance.key)
        throw new ResourceTakenError(
          `akri.sh/${instance.name} is the resource of Instance ${key}; ${instance.key} cannot have it`,
        )
      running.behaviour.update(instance)
      running.server.readvertise()
      return running.started
    }
    const { kubelet, clock, log, cluster, node } = this.#options
    const behaviour = new InstancePlugin(instance, { cluster, node, onClaimed: (slot) => this.#claims.set(slot, clock.now()) })
    const server = new DevicePluginServer({ behaviour, kubelet, clock, log: log.child({ resource: behaviour.resourceName }) })
    const started = server.start()
    this.#plugins.set(instance.name, { behaviour, server, started })
    await started
  }

  async withdraw(name: InstanceName): Promise<void> {
    const running = this.#plugins.get(name)
    this.#plugins.delete(name)
    for (const slot of [...this.#claims.keys()]) if (slotIndex(name, slot) !== undefined) this.#claims.delete(slot)
    await running?.server.stop()
  }

  /** When this process last claimed the slot, by its clock; undefined if it never did. */
  lastClaimed(slot: SlotName): number | undefined {
    return this.#claims.get(slot)
  }

  /** How many plugins run. */
  get size(): number {
    return this.#plugins.size
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#refreshing
    await Promise.all([...this.#plugins.keys()].map((name) => this.withdraw(name)))
  }

  #instanceChanged(key: ObjectKey): void {
    const name = key.slice(key.indexOf('/') + 1) as InstanceName
    const running = this.#plugins.get(name)
    if (running?.behaviour.instance.key === key) running.server.readvertise()
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#options
    while (!this.#stop.signal.aborted) {
      await clock.sleep(REFRESH_MS, this.#stop.signal).catch(() => undefined)
      for (const { server } of this.#plugins.values()) server.readvertise()
    }
  }
}
