import {
  type Compatibility,
  type ConfigurationName,
  GROUP,
  type InstanceName,
  slotIndex,
} from '@akrijs/api'
import { keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { type Clock, isTurnOver, type Logger, nextTurn, runAfter } from '@akrijs/runtime'
import { ResourceTakenError } from '../errors.js'
import type {
  InstancePlugins,
  RegistrationProblem,
  ServedConfiguration,
  ServedInstance,
  ServeOptions,
  Serving,
  WithdrawOptions,
} from '../instances/served-instance.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import { type AgentObserver, noopObserver } from '../report/observer.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { SlotClaims } from '../slots/slot-claims.js'
import type { WorkloadDirectoryMaker } from './allocation.js'
import { ConfigurationPlugin } from './configuration-plugin.js'
import { InstancePlugin } from './instance-plugin.js'
import type { PluginBehaviour } from './plugin-behaviour.js'
import { DevicePluginServer } from './plugin-server.js'
import { RegistrationProblems } from './registration-problems.js'

interface DevicePluginsOptions {
  readonly kubelet: Kubelet
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  /** @default none */
  readonly observer?: AgentObserver
  /** What this node knows of slots. The plugins add the Instances that it serves. */
  readonly book: SlotBook
  readonly claims: SlotClaims
  /** @default workloads get no directory */
  readonly directories?: WorkloadDirectoryMaker | undefined
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

/** A Configuration with more Instances sends a list less often than once for each event. */
const SMALL_LIST = 200
/**
 * For each Instance of a larger Configuration, the time from a change to the list that shows it, in
 * milliseconds: 10,000 Instances that appear one by one must not make 10,000 lists of 10,000 ids.
 */
const LIST_MS_PER_INSTANCE = 0.02

/** The device plugins of this node, as Configurations ask for: one for each, one for Instances. */
export class DevicePlugins implements InstancePlugins {
  readonly #options: DevicePluginsOptions & { readonly observer: AgentObserver }
  readonly #instances = new Map<InstanceName, ServedEntry>()
  readonly #configurations = new Map<ConfigurationName, RunningPlugin<ConfigurationPlugin>>()
  /** By the name of the resource. */
  readonly #plugins = new Map<string, RunningPlugin<PluginBehaviour>>()
  readonly #stop = new AbortController()
  readonly #refreshing: Promise<void>
  /** Configurations whose list is sent after the current events. */
  readonly #toReadvertise = new Set<ConfigurationName>()
  readonly #registrations: RegistrationProblems

  constructor(options: DevicePluginsOptions) {
    this.#options = { observer: noopObserver, ...options }
    this.#registrations = new RegistrationProblems(options.clock, this.#stop.signal)
    options.book.onChange(({ configuration, instance }) => {
      if (instance !== undefined) this.#instances.get(instance)?.plugin?.server.readvertise()
      this.#readvertiseLater(configuration)
    }, this.#stop.signal)
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
    const behaviour = new ConfigurationPlugin(name, this.#options)
    const plugin = this.#start(key, key, behaviour)
    this.#configurations.set(name, plugin)
    return { registered: plugin.started }
  }

  async withdrawConfiguration(key: ObjectKey): Promise<void> {
    for (const [name, running] of this.#configurations) {
      if (running.key !== key) continue
      this.#configurations.delete(name)
      await this.#stopPlugin(running)
    }
  }

  async serve(
    instance: ServedInstance,
    { hasResource = true }: ServeOptions = {},
  ): Promise<Serving> {
    const { name, key } = instance
    let served = this.#instances.get(name)
    if (served !== undefined && served.key !== key)
      throw taken(`${GROUP}/${name}`, `Instance ${served.key}`, key)
    served ??= { key, instance, plugin: undefined }
    // Before the kubelet can ask for its list.
    const { book } = this.#options
    if (hasResource) served.plugin ??= this.#startPlugin(instance)
    served.instance = instance
    this.#instances.set(name, served)
    book.serve(instance)
    const { plugin } = served
    if (plugin === undefined) return { registered: Promise.resolve() }
    if (!hasResource) {
      served.plugin = undefined
      return { registered: this.#stopPlugin(plugin) }
    }
    return { registered: plugin.started }
  }

  async withdraw(name: InstanceName, options: WithdrawOptions = {}): Promise<void> {
    const served = this.#instances.get(name)
    if (served === undefined) return
    const { book, claims } = this.#options
    this.#instances.delete(name)
    book.withdraw(served.instance, options.isGone === true)
    claims.forget((slot) => slotIndex(name, slot) !== undefined)
    if (served.plugin !== undefined) await this.#stopPlugin(served.plugin, options)
  }

  /** The resources of a Configuration and of its Instances that the kubelet does not have. */
  registrationProblems(configuration: ObjectKey): readonly RegistrationProblem[] {
    return this.#registrations.of(configuration)
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
  get served(): { readonly resourceName: string; readonly socket: string }[] {
    return [...this.#plugins.values()].flatMap(
      ({ behaviour: { resourceName }, server: { socket } }) =>
        socket === undefined ? [] : { resourceName, socket },
    )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#refreshing
    await Promise.all(
      [...this.#configurations.values()].map(({ key }) => this.withdrawConfiguration(key)),
    )
    await Promise.all([...this.#instances.keys()].map((name) => this.withdraw(name)))
  }

  #startPlugin(instance: ServedInstance): RunningPlugin<InstancePlugin> {
    const behaviour = new InstancePlugin(instance.name, this.#options)
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

  /** Many Instances change at once if a handler finds many devices: their list is made once. */
  #readvertiseLater(configuration: ConfigurationName): void {
    if (this.#toReadvertise.has(configuration)) return
    this.#toReadvertise.add(configuration)
    const send = () => {
      this.#toReadvertise.delete(configuration)
      this.#configurations.get(configuration)?.server.readvertise()
    }
    const { book, clock } = this.#options
    const size = book.all(configuration).length
    if (size <= SMALL_LIST) setImmediate(send)
    else runAfter(clock, size * LIST_MS_PER_INSTANCE, this.#stop.signal, send)
  }

  async #refresh(): Promise<void> {
    const { book, clock } = this.#options
    while (!this.#stop.signal.aborted) {
      await clock.sleep(REFRESH_MS, this.#stop.signal).catch(() => undefined)
      if (this.#stop.signal.aborted) return
      await book.refresh()
      for (const { server } of this.#plugins.values()) {
        if (isTurnOver()) await nextTurn()
        server.readvertise()
      }
    }
  }
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
