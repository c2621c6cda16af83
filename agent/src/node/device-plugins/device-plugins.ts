import { type ConfigurationName, type InstanceName, slotIndex } from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type {
  InstancePlugins,
  ServedConfiguration,
  ServedInstance,
} from '../../core/instances/served-instance.js'
import type { WorkloadDirectoryMaker } from '../../core/plugins/allocation.js'
import { ConfigurationPlugin } from '../../core/plugins/configuration-plugin.js'
import { InstancePlugin } from '../../core/plugins/instance-plugin.js'
import type { PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import type { AllocationLedger } from '../../core/slots/allocation-ledger.js'
import { SlotClaims } from '../../core/slots/slot-claims.js'
import { SlotReservations } from '../../core/slots/slot-reservations.js'
import { type SlotTable, slotTable } from '../../core/slots/slot-table.js'
import { ResourceTakenError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { Kubelet } from '../../ports/kubelet.js'
import { type AgentObserver, noopObserver } from '../../ports/observer.js'
import type { ServedPlugin } from '../liveness.js'
import { DevicePluginServer } from './plugin-server.js'

interface DevicePluginsOptions {
  readonly cluster: Cluster
  readonly kubelet: Kubelet
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  /** @default none */
  readonly observer?: AgentObserver
  /** The allocations of this node's containers. */
  readonly ledger: AllocationLedger
  /** @default workloads get no directory */
  readonly directories?: WorkloadDirectoryMaker | undefined
  /**
   * How long a slot that another node frees is reserved for that node, in milliseconds.
   * @default 15000
   */
  readonly slotHandoverMs?: number | undefined
}

interface RunningPlugin<Behaviour extends PluginBehaviour> {
  readonly key: ObjectKey
  readonly behaviour: Behaviour
  readonly server: DevicePluginServer
  readonly started: Promise<void>
}

/** How often each plugin sends a changed list in case that a change was missed, in milliseconds. */
const REFRESH_MS = 60_000

/**
 * Longer than the scheduler puts a Pod off that found no node: 10 s at most, and a second until it
 * looks (`podMaxBackoffSeconds` in the KubeSchedulerConfiguration API).
 */
const SLOT_HANDOVER_MS = 15_000

/** The device plugins of this node: one for each Instance, and one for each Configuration. */
export class DevicePlugins implements InstancePlugins {
  readonly claims: SlotClaims
  readonly #options: DevicePluginsOptions & {
    readonly observer: AgentObserver
    readonly directories: WorkloadDirectoryMaker | undefined
  }
  readonly #instances = new Map<InstanceName, RunningPlugin<InstancePlugin>>()
  readonly #configurations = new Map<ConfigurationName, RunningPlugin<ConfigurationPlugin>>()
  readonly #handover: SlotReservations
  readonly #stop = new AbortController()
  readonly #refreshing: Promise<void>
  /** Configurations whose list is sent after the current events. */
  readonly #toReadvertise = new Set<ConfigurationName>()

  constructor(options: DevicePluginsOptions) {
    this.#options = { observer: noopObserver, directories: undefined, ...options }
    this.claims = new SlotClaims(options.clock)
    this.#handover = new SlotReservations({
      node: options.node,
      clock: options.clock,
      reservationMs: options.slotHandoverMs ?? SLOT_HANDOVER_MS,
      onExpired: (key) => this.#readvertise(key),
    })
    const { instances } = options.cluster
    // A claim from before the start of the agent is reserved for its node too when it is released.
    for (const instance of instances.list())
      this.#handover.instanceChanged(keyOf(instance), instance)
    instances.onChange((key) => this.#instanceChanged(key), this.#stop.signal)
    this.#refreshing = this.#refresh()
  }

  async serveConfiguration(configuration: ServedConfiguration): Promise<void> {
    const { key, name } = configuration
    const running = this.#configurations.get(name)
    if (running !== undefined) {
      if (running.key !== key) throw taken(running, key)
      return running.started
    }
    const behaviour = new ConfigurationPlugin(configuration, {
      ...this.#options,
      instances: () => this.#servedOf(name),
      slotTable: (instance) => this.#slotTable(instance),
    })
    const plugin = this.#start(key, behaviour)
    this.#configurations.set(name, plugin)
    await plugin.started
  }

  async withdrawConfiguration(key: ObjectKey): Promise<void> {
    for (const [name, running] of this.#configurations) {
      if (running.key !== key) continue
      this.#configurations.delete(name)
      await running.server.stop()
    }
  }

  async serve(instance: ServedInstance): Promise<void> {
    const running = this.#instances.get(instance.name)
    if (running !== undefined) {
      if (running.key !== instance.key) throw taken(running, instance.key)
      // Called for each Instance when any Instance of its Configuration changes: most have not
      // changed.
      if (running.behaviour.update(instance) || running.server.failure !== undefined)
        this.#readvertise(instance.key)
      await running.started
      if (running.server.failure !== undefined) throw running.server.failure
      return
    }
    const behaviour = new InstancePlugin(instance, {
      ...this.#options,
      slotTable: (served) => this.#slotTable(served),
    })
    const plugin = this.#start(instance.key, behaviour)
    this.#instances.set(instance.name, plugin)
    this.#readvertiseLater(instance.configuration)
    await plugin.started
  }

  async withdraw(name: InstanceName): Promise<void> {
    const running = this.#instances.get(name)
    if (running === undefined) return
    this.#instances.delete(name)
    this.claims.forget((slot) => slotIndex(name, slot) !== undefined)
    this.#readvertiseLater(running.behaviour.instance.configuration)
    await running.server.stop()
  }

  get size(): number {
    return this.#instances.size + this.#configurations.size
  }

  /** The names of all resources, `akri.sh/…`. */
  get resources(): string[] {
    return this.#all.map(({ behaviour: { resourceName } }) => resourceName)
  }

  /** The plugins that have a socket now. */
  get served(): ServedPlugin[] {
    return this.#all.flatMap(({ behaviour: { resourceName }, server: { socket } }) =>
      socket === undefined ? [] : { resourceName, socket },
    )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#handover.close()
    await this.#refreshing
    await Promise.all(
      [...this.#configurations.values()].map(({ key }) => this.withdrawConfiguration(key)),
    )
    await Promise.all([...this.#instances.keys()].map((name) => this.withdraw(name)))
  }

  get #all(): readonly RunningPlugin<PluginBehaviour>[] {
    return [...this.#instances.values(), ...this.#configurations.values()]
  }

  /** @throws ResourceTakenError if another object has the resource */
  #start<Behaviour extends PluginBehaviour>(
    key: ObjectKey,
    behaviour: Behaviour,
  ): RunningPlugin<Behaviour> {
    const { resourceName } = behaviour
    // A Configuration may have the name of another Configuration's Instance, in one namespace too.
    const other = this.#all.find((running) => running.behaviour.resourceName === resourceName)
    if (other !== undefined) throw taken(other, key)
    const server = new DevicePluginServer({
      ...this.#options,
      behaviour,
      claims: this.claims,
      log: this.#options.log.child({ resource: resourceName }),
    })
    return { key, behaviour, server, started: server.start() }
  }

  #servedOf(configuration: ConfigurationName): readonly ServedInstance[] {
    return [...this.#instances.values()]
      .map(({ behaviour }) => behaviour.instance)
      .filter((instance) => instance.configuration === configuration)
  }

  #slotTable(served: ServedInstance): SlotTable {
    const instance = this.#options.cluster.instances.get(served.key)
    return slotTable(served, instance, instance && this.#handover.usage(served.key, instance))
  }

  #instanceChanged(key: ObjectKey): void {
    this.#handover.instanceChanged(key, this.#options.cluster.instances.get(key))
    this.#readvertise(key)
  }

  #readvertise(key: ObjectKey): void {
    const running = this.#instances.get(keyParts(key).name as InstanceName)
    if (running?.key !== key) return
    running.server.readvertise()
    this.#readvertiseLater(running.behaviour.instance.configuration)
  }

  /** Many Instances change at once if a handler finds many devices: their list is made once. */
  #readvertiseLater(configuration: ConfigurationName): void {
    if (this.#toReadvertise.has(configuration)) return
    this.#toReadvertise.add(configuration)
    setImmediate(() => {
      this.#toReadvertise.delete(configuration)
      this.#configurations.get(configuration)?.server.readvertise()
    })
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#options
    while (!this.#stop.signal.aborted) {
      await clock.sleep(REFRESH_MS, this.#stop.signal).catch(() => undefined)
      for (const { server } of this.#all) server.readvertise()
    }
  }
}

/**
 * The name of a resource has no namespace: only the first of two objects is served. The accepted
 * Configurations have no such clash; it lasts while an object takes the place of another.
 */
function taken(
  { key, behaviour }: RunningPlugin<PluginBehaviour>,
  other: ObjectKey,
): ResourceTakenError {
  return new ResourceTakenError(
    `${behaviour.resourceName} is the resource of ${behaviour.level} ${key}; ${other} ` +
      'cannot have it',
  )
}
