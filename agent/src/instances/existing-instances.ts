import { type Configuration, GROUP, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type OwnerIdentity, objectKey, refersTo } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { DiscoveredDevice } from '../discovery/device-set.js'
import type { InstanceIndex } from './instance-index.js'

/** The Instances of the cluster, by Configuration. */
export type InstancesToPlan = Pick<InstanceIndex, 'get' | 'of' | 'countOf' | 'longNamedOf'>

/**
 * Annotation of an Instance with the id of its device: two devices with the same digest must not be
 * merged.
 */
export const DEVICE_ID_ANNOTATION = 'akri.sh/device-id'

/** The digest is that of the id itself. People see the annotation. */
export function deviceIdAnnotation(id: string): Readonly<Record<string, string>> {
  return { [DEVICE_ID_ANNOTATION]: printable(id) }
}

/** The printable id of its device. Another program may have written the annotation. */
export function deviceIdOf(instance: Instance | undefined): string | undefined {
  const id = instance?.metadata.annotations?.[DEVICE_ID_ANNOTATION]
  return id === undefined ? undefined : printable(id)
}

/**
 * Whether the Configuration owns the Instance. An earlier Configuration of the same name has
 * another uid. An Instance in another namespace can have the uid too: its reference is forged.
 */
export function isOwnedBy(
  instance: Instance,
  configuration: { readonly metadata: OwnerIdentity['metadata'] },
): boolean {
  const { namespace, ownerReferences = [] } = instance.metadata
  const owner = { group: GROUP, kind: 'Configuration', metadata: configuration.metadata }
  return ownerReferences.some((reference) => refersTo(reference, namespace, owner))
}

/**
 * Whether an Instance with a name of the device is that of the device. Other implementations write
 * no id. A device that only its node sees can have the id, and the digest, of a device of another
 * node.
 */
export function isInstanceOf(
  instance: Instance,
  { device, shared }: Pick<DiscoveredDevice, 'device' | 'shared'>,
  node: NodeName,
): boolean {
  const id = deviceIdOf(instance)
  if (id !== undefined && id !== printable(device.id)) return false
  const { nodes, shared: isShared } = instance.spec
  return nodes.length === 0 || nodes.includes(node) || (shared && isShared)
}

/** The present Instances of one Configuration. */
export class ExistingInstances {
  readonly #configuration: Pick<Configuration, 'metadata'>
  readonly #instances: InstancesToPlan
  /** Those with a long digest. */
  readonly longNames: ReadonlySet<InstanceName>

  constructor(configuration: Pick<Configuration, 'metadata'>, instances: InstancesToPlan) {
    this.#configuration = configuration
    this.#instances = instances
    const long = [...instances.longNamedOf(keyOf(configuration))]
    const owned = long.filter((instance) => isOwnedBy(instance, configuration))
    this.longNames = new Set(owned.map(({ metadata }) => metadata.name))
  }

  get(name: InstanceName): Instance | undefined {
    const { namespace } = this.#configuration.metadata
    const instance = this.#instances.get(objectKey(namespace, name))
    return instance && isOwnedBy(instance, this.#configuration) ? instance : undefined
  }

  /** Those that a plan does not serve. */
  without(served: ReadonlyMap<InstanceName, { readonly existing: unknown }>): Instance[] {
    const key = keyOf(this.#configuration)
    let count = 0
    for (const { existing } of served.values()) if (existing !== undefined) count++
    if (count === this.#instances.countOf(key)) return []
    return [...this.#instances.of(key)].filter(
      (instance) => !served.has(instance.metadata.name) && isOwnedBy(instance, this.#configuration),
    )
  }
}
