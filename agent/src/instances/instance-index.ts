import { isDeepStrictEqual } from 'node:util'
import { configurationOf, type Instance } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { ObjectCache } from '../cluster/cluster.js'

interface InstanceChange {
  readonly instance: ObjectKey
  /** Whether only claims, places of other nodes, and what brokers report, have changed. */
  readonly isMinor: boolean
}

/**
 * The Instances of each Configuration: those that name the Configuration in their spec or as their
 * owner. A search among all Instances of the cluster would cost more with each node.
 */
export class InstanceIndex {
  readonly #instances: Pick<ObjectCache<Instance>, 'get'>
  readonly #byConfiguration = new Map<ObjectKey, Map<ObjectKey, Instance>>()
  /** The Configurations of each Instance. */
  readonly #configurations = new Map<ObjectKey, ReadonlySet<ObjectKey>>()
  readonly #listeners = new Listeners<[configuration: ObjectKey, change: InstanceChange]>()

  /** @param instances other listeners of these must come later, to find the index up to date */
  constructor(instances: ObjectCache<Instance>, node: NodeName, signal: AbortSignal) {
    this.#instances = instances
    for (const instance of instances.list()) this.#put(keyOf(instance), instance)
    instances.onChange((key) => {
      const before = this.#configurations.get(key) ?? new Set()
      const last = this.#indexed(key)
      const instance = instances.get(key)
      this.#remove(key)
      if (instance !== undefined) this.#put(key, instance)
      const after = this.#configurations.get(key) ?? new Set()
      const isMinor =
        last !== undefined && instance !== undefined && hasSameFacts(last, instance, node)
      for (const configuration of new Set([...before, ...after]))
        this.#listeners.tell(configuration, { instance: key, isMinor })
    }, signal)
  }

  get(instance: ObjectKey): Instance | undefined {
    return this.#instances.get(instance)
  }

  of(configuration: ObjectKey): Iterable<Instance> {
    return this.#byConfiguration.get(configuration)?.values() ?? []
  }

  /** Calls back for each Configuration of an Instance that was added, changed or removed. */
  onChange(
    listener: (configuration: ObjectKey, change: InstanceChange) => void,
    signal: AbortSignal,
  ): void {
    this.#listeners.add(listener, signal)
  }

  /** The Instance as it was at the last change. */
  #indexed(key: ObjectKey): Instance | undefined {
    const [configuration] = this.#configurations.get(key) ?? []
    return configuration && this.#byConfiguration.get(configuration)?.get(key)
  }

  #put(key: ObjectKey, instance: Instance): void {
    const { namespace, ownerReferences = [] } = instance.metadata
    const configurations = new Set([configurationOf(instance)])
    for (const { kind, name } of ownerReferences)
      if (kind === 'Configuration') configurations.add(objectKey(namespace, name))
    this.#configurations.set(key, configurations)
    for (const configuration of configurations) {
      const instances = this.#byConfiguration.get(configuration) ?? new Map<ObjectKey, Instance>()
      this.#byConfiguration.set(configuration, instances.set(key, instance))
    }
  }

  #remove(key: ObjectKey): void {
    for (const configuration of this.#configurations.get(key) ?? []) {
      const instances = this.#byConfiguration.get(configuration)
      instances?.delete(key)
      if (instances?.size === 0) this.#byConfiguration.delete(configuration)
    }
    this.#configurations.delete(key)
  }
}

/** Whether nothing differs that a plan of this node is made from, but claims. */
function hasSameFacts(before: Instance, after: Instance, node: NodeName): boolean {
  const facts = ({ metadata, spec }: Instance) => ({
    metadata: { ...metadata, resourceVersion: '', generation: 0 },
    spec: { ...spec, deviceUsage: {}, nodes: [] },
    place: spec.nodes.indexOf(node),
    isOfNoNode: spec.nodes.length === 0,
  })
  return isDeepStrictEqual(facts(before), facts(after))
}
