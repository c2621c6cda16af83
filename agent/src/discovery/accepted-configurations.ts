import { type Configuration, ConfigurationNames } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { ObjectCache } from '../cluster/cluster.js'

/**
 * The Configurations that the agent serves: those that have their name by right of age, as {@link
 * ConfigurationNames} decides.
 */
export class AcceptedConfigurations implements Omit<ObjectCache<Configuration>, 'synced'> {
  readonly #all: ObjectCache<Configuration>
  readonly #names: ConfigurationNames<Configuration>
  readonly #listeners = new Listeners<[key: ObjectKey]>()

  constructor(all: ObjectCache<Configuration>, signal: AbortSignal) {
    this.#all = all
    this.#names = new ConfigurationNames(all.list())
    all.onChange((key) => {
      const others = this.#names.update(key, all.get(key))
      this.#listeners.tell(key)
      for (const other of others) this.#listeners.tell(keyOf(other))
    }, signal)
  }

  get(key: ObjectKey): Configuration | undefined {
    return this.rival(key) === undefined ? this.#all.get(key) : undefined
  }

  list(): readonly Configuration[] {
    return this.#all.list().filter((configuration) => !this.#names.rival(configuration))
  }

  /** The oldest Configuration that has the name of this Configuration by right of age. */
  rival(key: ObjectKey): Configuration | undefined {
    const configuration = this.#all.get(key)
    return configuration && this.#names.rival(configuration)
  }

  /** Older Configurations with a name that an Instance of this Configuration could have. */
  takenNames(configuration: Configuration): ReadonlyMap<string, Configuration> {
    return this.#names.takenNames(configuration)
  }

  /**
   * Also calls back for Configurations whose name or Instances depend on a Configuration that
   * appeared or disappeared.
   */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
