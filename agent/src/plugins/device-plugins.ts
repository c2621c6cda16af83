import { type ConfigurationName, GROUP, type InstanceName } from '@akrijs/api'
import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import { ResourceTakenError } from '../errors.js'
import type {
  InstancePlugins,
  RegistrationProblem,
  ServedInstance,
} from '../instances/served-instance.js'
import type { PluginLevel } from '../report/observer.js'
import type { Resource } from '../slots/resource.js'
import type { SlotBook } from '../slots/slot-book.js'
import { type PluginOptions, ResourcePlugin } from './resource-plugin.js'

interface DevicePluginsOptions extends PluginOptions {
  /** What this node knows of slots. The plugins add the Instances that it serves. */
  readonly book: SlotBook
}

/** The device plugins of this node, as Configurations ask for: one for each, one for Instances. */
export class DevicePlugins implements InstancePlugins {
  readonly #options: DevicePluginsOptions
  /** By the name of the resource. */
  readonly #plugins = new Map<string, ResourcePlugin>()
  readonly #registrations = new Listeners<[configuration: ObjectKey]>()
  readonly #stop = new AbortController()

  constructor(options: DevicePluginsOptions) {
    this.#options = options
    options.book.onChange(
      (resource) => this.#plugins.get(resource)?.readvertise(),
      this.#stop.signal,
    )
  }

  serveConfiguration(key: ObjectKey): Promise<void> {
    const owner = keyParts(key).name as ConfigurationName
    const resource = { level: 'configuration', owner, name: `${GROUP}/${owner}` } as const
    return this.#serve(resource, key, key).started
  }

  withdrawConfiguration(key: ObjectKey): Promise<void> {
    return this.#end('configuration', key)
  }

  serve(instance: ServedInstance, hasResource: boolean): Promise<void> {
    const { book } = this.#options
    const { name, key, configuration } = instance
    const before = book.served(name)
    if (before !== undefined && before.key !== key)
      throw taken(`${GROUP}/${name}`, `Instance ${before.key}`, key)
    if (!hasResource) {
      book.serve(instance)
      return this.#end('instance', key)
    }
    const owner = objectKey(keyParts(key).namespace, configuration)
    const resource = { level: 'instance', owner: name, name: `${GROUP}/${name}` } as const
    const plugin = this.#serve(resource, key, owner)
    // Before the kubelet can ask for its list.
    book.serve(instance)
    return plugin.started
  }

  async withdraw(name: InstanceName, isGone: boolean): Promise<void> {
    const { book } = this.#options
    const served = book.served(name)
    if (served === undefined) return
    book.withdraw(served, isGone)
    await this.#end('instance', served.key, isGone)
  }

  /** The resources of a Configuration and of its Instances that the kubelet does not have. */
  registrationProblems(key: ObjectKey): readonly RegistrationProblem[] {
    return [...this.#plugins.values()].flatMap(({ configuration, problem }) =>
      configuration === key && problem !== undefined ? problem : [],
    )
  }

  /** Calls back with a Configuration after these resources have changed. */
  onRegistrationChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#registrations.add(listener, signal)
  }

  /** The names of all resources, `akri.sh/…`. */
  get resources(): string[] {
    return [...this.#plugins.keys()]
  }

  /** The plugins that have a socket now. */
  get served(): { readonly resourceName: string; readonly socket: string }[] {
    return [...this.#plugins].flatMap(([resourceName, { socket }]) =>
      socket === undefined ? [] : { resourceName, socket },
    )
  }

  /** Ends all plugins. Devices stay: the kubelet gets no last list. */
  async close(): Promise<void> {
    this.#stop.abort()
    const plugins = [...this.#plugins.values()]
    this.#plugins.clear()
    await Promise.all(plugins.map((plugin) => plugin.stop()))
  }

  /**
   * @returns the plugin of the object, started if there was none
   * @throws ResourceTakenError if another object has the resource
   */
  #serve(resource: Resource, key: ObjectKey, configuration: ObjectKey): ResourcePlugin {
    const { name, level } = resource
    // A Configuration may have the name of another Configuration's Instance, in one namespace too.
    const before = this.#plugins.get(name)
    if (before?.key === key && before.resource.level === level) return before
    if (before !== undefined) throw taken(name, `${before.resource.level} ${before.key}`, key)
    const plugin = new ResourcePlugin({
      ...this.#options,
      ...{ resource, key, configuration },
      log: this.#options.log.child({ resource: name }),
      onProblem: () => this.#registrations.tell(configuration),
    })
    this.#plugins.set(name, plugin)
    return plugin
  }

  /** Ends the plugin of the object, if it has one. */
  async #end(level: PluginLevel, key: ObjectKey, isGone = false): Promise<void> {
    const plugin = this.#plugins.get(`${GROUP}/${keyParts(key).name}`)
    if (plugin?.key !== key || plugin.resource.level !== level) return
    this.#plugins.delete(plugin.resource.name)
    await plugin.stop(isGone)
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
