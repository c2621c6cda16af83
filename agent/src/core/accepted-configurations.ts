import { type Configuration, possibleOwner } from '@akrijs/api'
import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { ObjectCache } from '../ports/cluster.js'

/**
 * The Configurations that the agent serves. The name of a resource has no namespace, and is that of
 * a Configuration or of an Instance. So a Configuration is left out while an older Configuration
 * has its name, or could have an Instance of its name. Devices that come and go decide nothing.
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
    const oldest = new Map<string, Configuration>()
    for (const configuration of this.#all.list()) {
      const { name } = configuration.metadata
      const other = oldest.get(name)
      if (other === undefined || isOlder(configuration, other)) oldest.set(name, configuration)
    }
    return [...oldest.values()].filter((configuration) => {
      const owner = oldest.get(possibleOwner(configuration.metadata.name) ?? '')
      return owner === undefined || !isOlder(owner, configuration)
    })
  }

  /** The oldest Configuration that has the name of this Configuration by right of age. */
  rival(key: ObjectKey): Configuration | undefined {
    const configuration = this.#all.get(key)
    if (configuration === undefined) return undefined
    const { name } = configuration.metadata
    const owner = possibleOwner(name)
    let rival: Configuration | undefined
    for (const other of this.#all.list()) {
      if (other.metadata.name !== name && other.metadata.name !== owner) continue
      if (isOlder(other, rival ?? configuration)) rival = other
    }
    return rival
  }

  /** Older Configurations with a name that an Instance of this Configuration could have. */
  takenNames({ metadata }: Configuration): ReadonlyMap<string, Configuration> {
    const start = `${metadata.name}-`
    const taken = new Map<string, Configuration>()
    for (const other of this.#all.list()) {
      const { name } = other.metadata
      if (!name.startsWith(start) || possibleOwner(name) !== metadata.name) continue
      if (isOlder(other, taken.get(name) ?? { metadata })) taken.set(name, other)
    }
    return taken
  }

  /**
   * Also calls back for Configurations whose name or Instances depend on a Configuration that
   * appeared or disappeared.
   */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    const uids = new Map(this.#all.list().map((each) => [keyOf(each), each.metadata.uid]))
    this.#all.onChange((key) => {
      listener(key)
      const uid = this.#all.get(key)?.metadata.uid
      if (uids.get(key) === uid) return
      if (uid === undefined) uids.delete(key)
      else uids.set(key, uid)
      const { name } = keyParts(key)
      for (const other of this.#all.list())
        if (keyOf(other) !== key && canClash(other.metadata.name, name)) listener(keyOf(other))
    }, signal)
  }
}

function canClash(a: string, b: string): boolean {
  return a === b || possibleOwner(a) === b || possibleOwner(b) === a
}

/** The order is the same on all nodes: it does not depend on which Configuration was seen first. */
function isOlder(a: Pick<Configuration, 'metadata'>, b: Pick<Configuration, 'metadata'>): boolean {
  const [timeA, timeB] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp]
  return timeA === timeB ? a.metadata.uid < b.metadata.uid : timeA < timeB
}
