import type { Configuration } from '@akrijs/api'
import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { ObjectCache } from '../ports/cluster.js'

/**
 * The Configurations that are in force. Resources are named after Configurations without their namespace, so that of several
 * with one name, in different namespaces, only the oldest can be served; the others are as if they were not there.
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
    const configuration = this.#all.get(key)
    return configuration !== undefined && this.rival(key) === undefined ? configuration : undefined
  }

  list(): readonly Configuration[] {
    const first = new Map<string, Configuration>()
    for (const configuration of this.#all.list()) {
      const known = first.get(configuration.metadata.name)
      if (known === undefined || comesBefore(configuration, known))
        first.set(configuration.metadata.name, configuration)
    }
    return [...first.values()]
  }

  /** The Configuration of the same name that is in force instead of this one. */
  rival(key: ObjectKey): Configuration | undefined {
    const configuration = this.#all.get(key)
    if (configuration === undefined) return undefined
    const first = this.#namesakes(configuration.metadata.name).reduce(
      (a, b) => (comesBefore(a, b) ? a : b),
      configuration,
    )
    return first === configuration ? undefined : first
  }

  /** Calls back also for those of the same name: one that goes makes room for the next. */
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

/** All nodes must come to the same order, so that it does not depend on who was seen first. */
function comesBefore(a: Configuration, b: Configuration): boolean {
  const [timeA, timeB] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp]
  return timeA === timeB ? a.metadata.uid <= b.metadata.uid : timeA < timeB
}
