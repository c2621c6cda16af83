import { GROUP, holderOf, type Instance } from '@akrijs/api'
import { type NodeName, type OwnerIdentity, refersTo } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { DiscoveredDevice } from '../discovery/device-set.js'

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

/** Whether the node has a claim in the Instance. */
export function isUsedBy({ spec }: Instance, node: NodeName): boolean {
  return Object.values(spec.deviceUsage).some((usage) => holderOf(usage) === node)
}
