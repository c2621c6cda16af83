import type { Configuration } from '@akrijs/api'
import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { ObjectCache } from '../ports/cluster.js'

/**
 * The Configurations that the agent serves. The name of a resource has no namespace. So of several
 * Configurations with the same name, only the oldest is served, and the others are left out.
 */
export class AcceptedConfigurations implements ObjectCache<Configuration> {
  readonly #all: ObjectCache<Configuration>

  constructor(all: ObjectCache<Configuration>) {
    this.#all = all
  }

  get synced(): Promise<void> {
    return this.#all.synced
  }

  get(key: ObjectKey): Configuration | undefined {
    return this.rival(key) === undefined ? this.#all.get(key) : undefined
  }

  list(): readonly Configuration[] {
    return this.#all
      .list()
      .filter((configuration) => this.rival(keyOf(configuration)) === undefined)
  }

  /** The Configuration of the same name that is served instead. */
  rival(key: ObjectKey): Configuration | undefined {
    const configuration = this.#all.get(key)
    if (configuration === undefined) return undefined
    const first = this.#namesakes(configuration.metadata.name).reduce(
      (a, b) => (comesBefore(a, b) ? a : b),
      configuration,
    )
    return first === configuration ? undefined : first
  }

  /**
   * Also calls back for Configurations of the same name: after a deletion, the next of them is
   * served.
   */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#all.onChange((key) => {
      listener(key)
      for (const other of this.#namesakes(keyParts(key).name))
        if (keyOf(other) !== key) listener(keyOf(other))
    }, signal)
  }

  #namesakes(name: string): Configuration[] {
    return this.#all.list().filter(({ metadata }) => metadata.name === name)
  }
}

/** The order is the same on all nodes: it does not depend on which Configuration was seen first. */
function comesBefore(a: Configuration, b: Configuration): boolean {
  const [timeA, timeB] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp]
  return timeA === timeB ? a.metadata.uid <= b.metadata.uid : timeA < timeB
}
