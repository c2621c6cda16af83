import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube/objects'
import { possibleOwner } from './names.js'
import type { Configuration } from './types.js'

type NamedConfiguration = Pick<Configuration, 'metadata'>

/**
 * Decides which Configuration has a name. The name of a resource has no namespace, and is that of a
 * Configuration or of an Instance. So a Configuration has no right to its name while an older
 * Configuration has the name, or could have an Instance of the name. Devices that come and go
 * decide nothing, nor does the order of events: all programs of the cluster decide alike.
 */
export class ConfigurationNames<T extends NamedConfiguration> {
  readonly #byName = new Map<string, Map<ObjectKey, T>>()
  /** The names of Configurations that could be Instances, by the Configuration of the Instance. */
  readonly #byOwner = new Map<string, Set<string>>()

  constructor(configurations: Iterable<T> = []) {
    for (const configuration of configurations) this.#add(configuration)
  }

  /**
   * Takes over the present state of a Configuration.
   * @param configuration undefined if there is none of this key
   * @returns the other Configurations with a name, or a name of an Instance, that may have got
   * another owner by that
   */
  update(key: ObjectKey, configuration: T | undefined): readonly T[] {
    const { name } = keyParts(key)
    const before = this.#byName.get(name)?.get(key)
    if (configuration === undefined) this.#remove(key, name)
    else this.#add(configuration)
    if (before?.metadata.uid === configuration?.metadata.uid) return []
    const names = [name, possibleOwner(name) ?? '', ...(this.#byOwner.get(name) ?? [])]
    return names.flatMap((each) => this.#of(each)).filter((other) => keyOf(other) !== key)
  }

  /** The oldest Configuration that has the name of this Configuration by right of age. */
  rival(configuration: NamedConfiguration): T | undefined {
    const { name } = configuration.metadata
    return oldest([...this.#of(name), ...this.#of(possibleOwner(name) ?? '')], configuration)
  }

  /** Older Configurations with a name that an Instance of this Configuration could have. */
  takenNames(configuration: NamedConfiguration): ReadonlyMap<string, T> {
    const taken = new Map<string, T>()
    for (const name of this.#byOwner.get(configuration.metadata.name) ?? []) {
      const other = oldest(this.#of(name), configuration)
      if (other !== undefined) taken.set(name, other)
    }
    return taken
  }

  #of(name: string): readonly T[] {
    return [...(this.#byName.get(name)?.values() ?? [])]
  }

  #add(configuration: T): void {
    const { name } = configuration.metadata
    const named = this.#byName.get(name) ?? new Map<ObjectKey, T>()
    this.#byName.set(name, named.set(keyOf(configuration), configuration))
    const owner = possibleOwner(name)
    if (owner === undefined) return
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? new Set()).add(name))
  }

  #remove(key: ObjectKey, name: string): void {
    const named = this.#byName.get(name)
    named?.delete(key)
    if (named === undefined || named.size > 0) return
    this.#byName.delete(name)
    const owner = possibleOwner(name) ?? ''
    const names = this.#byOwner.get(owner)
    names?.delete(name)
    if (names?.size === 0) this.#byOwner.delete(owner)
  }
}

/** The oldest of the Configurations that are older than this one. */
function oldest<T extends NamedConfiguration>(
  configurations: readonly T[],
  than: NamedConfiguration,
): T | undefined {
  let found: T | undefined
  for (const each of configurations) if (isOlder(each, found ?? than)) found = each
  return found
}

/** The order is the same in all programs: it does not depend on what a program has seen first. */
function isOlder({ metadata: a }: NamedConfiguration, { metadata: b }: NamedConfiguration) {
  return a.creationTimestamp === b.creationTimestamp
    ? a.uid < b.uid
    : a.creationTimestamp < b.creationTimestamp
}
