import { isDeepStrictEqual } from 'node:util'
import { configurationOf, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { ObjectCache } from '../cluster/cluster.js'

type InstanceChange = [configuration: ObjectKey, name: InstanceName, isMinor: boolean]

/**
 * The Instances of each Configuration: those that name the Configuration in their spec or as their
 * owner. A search among all Instances of the cluster would cost more with each node.
 */
export class InstanceIndex {
  readonly #byConfiguration = new Map<ObjectKey, Map<ObjectKey, Instance>>()
  /** The Instances as they were at the last change. */
  readonly #indexed = new Map<ObjectKey, Instance>()
  readonly #listeners = new Listeners<InstanceChange>()

  /** @param instances other listeners of these must come later, to find the index up to date */
  constructor(instances: ObjectCache<Instance>, node: NodeName, signal: AbortSignal) {
    for (const instance of instances.list()) this.#put(keyOf(instance), instance)
    instances.onChange((key) => {
      const last = this.#indexed.get(key)
      const instance = instances.get(key)
      if (last !== undefined) this.#remove(key, last)
      if (instance !== undefined) this.#put(key, instance)
      const isMinor =
        last !== undefined && instance !== undefined && hasSameFacts(last, instance, node)
      const name = keyParts(key).name as InstanceName
      const configurations = [...configurationsOf(last), ...configurationsOf(instance)]
      for (const configuration of new Set(configurations))
        this.#listeners.tell(configuration, name, isMinor)
    }, signal)
  }

  get(instance: ObjectKey): Instance | undefined {
    return this.#indexed.get(instance)
  }

  of(configuration: ObjectKey): readonly Instance[] {
    return [...(this.#byConfiguration.get(configuration)?.values() ?? [])]
  }

  /**
   * Calls back for each Configuration of an Instance that was added, changed or removed. A change
   * is minor if it is only of claims, of places of other nodes, or of what brokers report.
   */
  onChange(listener: (...change: InstanceChange) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #put(key: ObjectKey, instance: Instance): void {
    this.#indexed.set(key, instance)
    for (const configuration of configurationsOf(instance)) {
      const of = this.#byConfiguration.get(configuration) ?? new Map<ObjectKey, Instance>()
      this.#byConfiguration.set(configuration, of.set(key, instance))
    }
  }

  #remove(key: ObjectKey, last: Instance): void {
    this.#indexed.delete(key)
    for (const configuration of configurationsOf(last)) {
      const of = this.#byConfiguration.get(configuration)
      of?.delete(key)
      if (of?.size === 0) this.#byConfiguration.delete(configuration)
    }
  }
}

function configurationsOf(instance: Instance | undefined): ObjectKey[] {
  if (instance === undefined) return []
  const { namespace, ownerReferences = [] } = instance.metadata
  const owners = ownerReferences.filter(({ kind }) => kind === 'Configuration')
  return [configurationOf(instance), ...owners.map(({ name }) => objectKey(namespace, name))]
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
