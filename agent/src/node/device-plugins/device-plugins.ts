import {
  type Compatibility,
  type ConfigurationName,
  GROUP,
  type InstanceName,
  instanceNameParts,
  slotIndex,
} from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { type Clock, isTurnOver, Listeners, type Logger, nextTurn, runAfter } from '@akrijs/runtime'
import type {
  InstancePlugins,
  RegistrationProblem,
  ServedConfiguration,
  ServedInstance,
  ServeOptions,
  Serving,
  WithdrawOptions,
} from '../../core/instances/served-instance.js'
import type { WorkloadDirectoryMaker } from '../../core/plugins/allocation.js'
import { ConfigurationInstances } from '../../core/plugins/configuration-instances.js'
import { ConfigurationPlugin } from '../../core/plugins/configuration-plugin.js'
import { InstancePlugin } from '../../core/plugins/instance-plugin.js'
import type { PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import { type AllocationLedger, instanceOf } from '../../core/slots/allocation-ledger.js'
import { SlotClaims } from '../../core/slots/slot-claims.js'
import { SlotReservations } from '../../core/slots/slot-reservations.js'
import { type SlotTable, slotTable } from '../../core/slots/slot-table.js'
import { ResourceTakenError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { Kubelet } from '../../ports/kubelet.js'
import { type AgentObserver, noopObserver } from '../../ports/observer.js'
import type { ServedPlugin } from '../liveness.js'
import { DevicePluginServer } from './plugin-server.js'
import { RegistrationProblems } from './registration-problems.js'

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
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** An Instance that this node serves. */
interface ServedEntry {
  readonly key: ObjectKey
  instance: ServedInstance
  /** Undefined if the resource of the Configuration alone offers the slots. */
  plugin: RunningPlugin<InstancePlugin> | undefined
}

interface RunningPlugin<Behaviour extends PluginBehaviour> {
  readonly key: ObjectKey
  readonly configuration: ObjectKey
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

/** A Configuration with more Instances sends a list less often than once for each event. */
const SMALL_LIST = 200
/**
 * For each Instance of a larger Configuration, the time from a change to the list that shows it, in
 * milliseconds: 10,000 Instances that appear one by one must not make 10,000 lists of 10,000 ids.
 */
const LIST_MS_PER_INSTANCE = 0.02

/** The device plugins of this node, as Configurations ask for: one for each, one for Instances. */
export class DevicePlugins implements InstancePlugins {
  readonly claims: SlotClaims
  readonly #options: DevicePluginsOptions & {
    readonly observer: AgentObserver
    readonly directories: WorkloadDirectoryMaker | undefined
  }
  readonly #instances = new Map<InstanceName, ServedEntry>()
  /** The same by Configuration, with their slots. */
  readonly #ofConfigurations = new Map<ConfigurationName, ConfigurationInstances>()
  readonly #configurations = new Map<ConfigurationName, RunningPlugin<ConfigurationPlugin>>()
  /** By the name of the resource. */
  readonly #plugins = new Map<string, RunningPlugin<PluginBehaviour>>()
  readonly #handover: SlotReservations
  readonly #stop = new AbortController()
  readonly #refreshing: Promise<void>
  /** Configurations whose list is sent after the current events. */
  readonly #toReadvertise = new Set<ConfigurationName>()
  readonly #registrations: RegistrationProblems
  readonly #lossOver = new Listeners<[configuration: ConfigurationName]>()

  constructor(options: DevicePluginsOptions) {
    this.#options = { observer: noopObserver, directories: undefined, ...options }
    this.claims = new SlotClaims(options.clock)
    this.#registrations = new RegistrationProblems(options.clock, this.#stop.signal)
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
    options.ledger.onChange((slot) => this.#allocationChanged(instanceOf(slot)), this.#stop.signal)
    this.#refreshing = this.#refresh()
  }

  async serveConfiguration(configuration: ServedConfiguration): Promise<Serving> {
    const { key, name } = configuration
    const running = this.#configurations.get(name)
    if (running !== undefined) {
      if (running.key !== key)
        throw taken(running.behaviour.resourceName, `configuration ${running.key}`, key)
      return { registered: running.started }
    }
    const behaviour = new ConfigurationPlugin(configuration, {
      ...this.#options,
      instances: this.#instancesOf(name),
    })
    const plugin = this.#start(key, key, behaviour)
    this.#configurations.set(name, plugin)
    return { registered: plugin.started }
  }

  async withdrawConfiguration(key: ObjectKey): Promise<void> {
    for (const [name, running] of this.#configurations) {
      if (running.key !== key) continue
      this.#configurations.delete(name)
      this.#forget(name)
      await this.#stopPlugin(running)
    }
  }

  async serve(
    instance: ServedInstance,
    { hasResource = true }: ServeOptions = {},
  ): Promise<Serving> {
    const { name, key, configuration } = instance
    let served = this.#instances.get(name)
    if (served !== undefined && served.key !== key)
      throw taken(`${GROUP}/${name}`, `Instance ${served.key}`, key)
    const before = served?.instance
    served ??= { key, instance, plugin: undefined }
    if (hasResource) served.plugin ??= this.#startPlugin(instance)
    served.instance = instance
    this.#instances.set(name, served)
    this.#instancesOf(configuration).set(instance)
    const mayDiffer = served.plugin?.behaviour.update(instance) ?? differs(instance, before)
    const { plugin } = served
    if (before === undefined) this.#readvertiseLater(configuration)
    else if (mayDiffer || plugin?.server.failure !== undefined) this.#readvertise(key)
    if (plugin === undefined) return { registered: Promise.resolve() }
    if (!hasResource) {
      served.plugin = undefined
      return { registered: this.#stopPlugin(plugin) }
    }
    return { registered: registered(plugin) }
  }

  async withdraw(name: InstanceName, options: WithdrawOptions = {}): Promise<void> {
    const served = this.#instances.get(name)
    if (served === undefined) return
    const { configuration } = served.instance
    this.#instances.delete(name)
    this.#instancesOf(configuration).delete(name)
    if (options.isGone === true) this.lose(configuration, name)
    this.claims.forget((slot) => slotIndex(name, slot) !== undefined)
    this.#readvertiseLater(configuration)
    this.#forget(configuration)
    if (served.plugin !== undefined) await this.#stopPlugin(served.plugin, options)
  }

  lose(configuration: ConfigurationName, name: InstanceName): void {
    if (this.#options.ledger.inUse(name).length === 0) return
    // Also without a device that is served.
    this.#instancesOf(configuration).lose(name)
    this.#readvertiseLater(configuration)
  }

  /** The resources of a Configuration and of its Instances that the kubelet does not have. */
  registrationProblems(configuration: ObjectKey): readonly RegistrationProblem[] {
    return this.#registrations.of(configuration)
  }

  lost(configuration: ConfigurationName): Iterable<InstanceName> {
    return this.#ofConfigurations.get(configuration)?.lost ?? []
  }

  isLost(name: InstanceName): boolean {
    const configuration = instanceNameParts(name)?.configuration
    return (
      configuration !== undefined &&
      this.#ofConfigurations.get(configuration)?.lost.has(name) === true
    )
  }

  /** Calls back when no Pod of this node has a device of `lost` any more. */
  onLossOver(listener: (configuration: ConfigurationName) => void, signal: AbortSignal): void {
    this.#lossOver.add(listener, signal)
  }

  /** Calls back with a Configuration after these resources have changed. */
  onRegistrationChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#registrations.onChange(listener, signal)
  }

  get size(): number {
    return this.#plugins.size
  }

  /** The names of all resources, `akri.sh/…`. */
  get resources(): string[] {
    return [...this.#plugins.keys()]
  }

  /** The plugins that have a socket now. */
  get served(): ServedPlugin[] {
    return [...this.#plugins.values()].flatMap(
      ({ behaviour: { resourceName }, server: { socket } }) =>
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

  #startPlugin(instance: ServedInstance): RunningPlugin<InstancePlugin> {
    const behaviour = new InstancePlugin(instance, {
      ...this.#options,
      slotTable: (served) => this.#slotTable(served),
    })
    const { namespace } = keyParts(instance.key)
    return this.#start(instance.key, objectKey(namespace, instance.configuration), behaviour)
  }

  /** @throws ResourceTakenError if another object has the resource */
  #start<Behaviour extends PluginBehaviour>(
    key: ObjectKey,
    configuration: ObjectKey,
    behaviour: Behaviour,
  ): RunningPlugin<Behaviour> {
    const { resourceName } = behaviour
    // A Configuration may have the name of another Configuration's Instance, in one namespace too.
    const other = this.#plugins.get(resourceName)
    if (other !== undefined) throw taken(resourceName, `${other.behaviour.level} ${other.key}`, key)
    const server = new DevicePluginServer({
      ...this.#options,
      behaviour,
      claims: this.claims,
      log: this.#options.log.child({ resource: resourceName }),
      onRegistration: (problem) => {
        // A plugin that is being stopped may still try.
        if (this.#plugins.get(resourceName)?.behaviour === behaviour)
          this.#registrations.set(configuration, resourceName, problem)
      },
    })
    const plugin = { key, configuration, behaviour, server, started: server.start() }
    this.#plugins.set(resourceName, plugin)
    return plugin
  }

  #stopPlugin(
    plugin: RunningPlugin<PluginBehaviour>,
    options: WithdrawOptions = {},
  ): Promise<void> {
    const { resourceName } = plugin.behaviour
    this.#plugins.delete(resourceName)
    this.#registrations.set(plugin.configuration, resourceName, undefined)
    return plugin.server.stop(options)
  }

  #instancesOf(configuration: ConfigurationName): ConfigurationInstances {
    const present = this.#ofConfigurations.get(configuration)
    if (present !== undefined) return present
    const instances = new ConfigurationInstances((served) => this.#slotTable(served))
    this.#ofConfigurations.set(configuration, instances)
    return instances
  }

  #forget(configuration: ConfigurationName): void {
    const { size = 0, lost } = this.#ofConfigurations.get(configuration) ?? {}
    if (size + (lost?.size ?? 0) === 0 && !this.#configurations.has(configuration))
      this.#ofConfigurations.delete(configuration)
  }

  #slotTable(served: ServedInstance): SlotTable {
    const instance = this.#options.cluster.instances.get(served.key)
    return slotTable(served, instance, instance && this.#handover.usage(served.key, instance))
  }

  #instanceChanged(key: ObjectKey): void {
    this.#handover.instanceChanged(key, this.#options.cluster.instances.get(key))
    this.#readvertise(key)
  }

  /** Without an Instance, and after the loss of a device, lists depend on allocations. */
  #allocationChanged(name: InstanceName): void {
    const { plugin, instance } = this.#instances.get(name) ?? {}
    if (plugin !== undefined && instance !== undefined && !this.#slotTable(instance).usable)
      plugin.server.readvertise()
    for (const [configuration, instances] of this.#ofConfigurations) {
      if (!instances.lost.has(name) && !instances.awaited.has(name)) continue
      this.#readvertiseLater(configuration)
      if (this.#options.ledger.inUse(name).length > 0 || !instances.lost.has(name)) continue
      instances.forget(name)
      this.#forget(configuration)
      this.#lossOver.tell(configuration)
    }
  }

  #readvertise(key: ObjectKey): void {
    const { name } = keyParts(key)
    const served = this.#instances.get(name as InstanceName)
    if (served?.key !== key) return
    const { configuration } = served.instance
    this.#instancesOf(configuration).changed(served.instance.name)
    served.plugin?.server.readvertise()
    this.#readvertiseLater(configuration)
  }

  /** Many Instances change at once if a handler finds many devices: their list is made once. */
  #readvertiseLater(configuration: ConfigurationName): void {
    if (this.#toReadvertise.has(configuration)) return
    this.#toReadvertise.add(configuration)
    const send = () => {
      this.#toReadvertise.delete(configuration)
      this.#configurations.get(configuration)?.server.readvertise()
    }
    const instances = this.#ofConfigurations.get(configuration)
    const { size = 0 } = instances ?? {}
    if (size <= SMALL_LIST) setImmediate(send)
    else
      runAfter(this.#options.clock, size * LIST_MS_PER_INSTANCE, this.#stop.signal, () => {
        void instances?.update().then(send)
      })
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#options
    while (!this.#stop.signal.aborted) {
      await clock.sleep(REFRESH_MS, this.#stop.signal).catch(() => undefined)
      for (const instances of this.#ofConfigurations.values()) {
        instances.refresh()
        await instances.update()
      }
      for (const { server } of this.#plugins.values()) {
        if (isTurnOver()) await nextTurn()
        server.readvertise()
      }
    }
  }
}

async function registered({ started, server }: RunningPlugin<PluginBehaviour>): Promise<void> {
  await started
  if (server.failure !== undefined) throw server.failure
}

function differs(
  { healthy, capacity }: ServedInstance,
  before: ServedInstance | undefined,
): boolean {
  return before?.healthy !== healthy || before.capacity !== capacity
}

/**
 * The name of a resource has no namespace: only the first of two objects is served. The accepted
 * Configurations have no such clash; it lasts while an object takes the place of another.
 */
function taken(resourceName: string, owner: string, other: ObjectKey): ResourceTakenError {
  return new ResourceTakenError(
    `${resourceName} is the resource of ${owner}; ${other} cannot have it`,
  )
}
