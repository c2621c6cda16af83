import { type Configuration, GROUP, type Instance } from '@akrijs/api'
import {
  keyOf,
  type NodeName,
  type ObjectKey,
  type OwnerIdentity,
  objectKey,
  refersTo,
} from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { deviceDigest, instanceName } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/**
 * Annotation of an Instance with the id of its device: two devices with the same digest must not be
 * merged.
 */
export const DEVICE_ID_ANNOTATION = 'akri.sh/device-id'

/** The digest is that of the id itself. People see the annotation. */
export function deviceIdAnnotation(id: string): Readonly<Record<string, string>> {
  return { [DEVICE_ID_ANNOTATION]: printable(id) }
}

/** What this node does about the Instances of one Configuration. */
export interface InstancePlan {
  readonly served: readonly PlannedInstance[]
  /** Instances of this node whose device it no longer sees. */
  readonly leave: readonly Instance[]
  readonly collisions: readonly DigestCollision[]
  readonly taken: readonly TakenName[]
}

export interface PlannedInstance extends ServedInstance {
  readonly shared: boolean
  /** The present Instance, if it exists. */
  readonly existing: Instance | undefined
}

/** Two devices whose ids have the same digest: the refused device gets no Instance. */
export interface DigestCollision {
  readonly digest: string
  readonly kept: string
  readonly refused: string
}

/** A device without an Instance: an older Configuration has the name of the Instance. */
export interface TakenName {
  readonly device: string
  readonly owner: ObjectKey
}

interface InstancePlanInput {
  readonly configuration: Configuration
  /** Older Configurations with names that Instances could have. */
  readonly takenNames: ReadonlyMap<string, Pick<Configuration, 'metadata'>>
  readonly node: NodeName
  readonly devices: DeviceSet
  /** All Instances of the cluster. */
  readonly instances: Iterable<Instance>
}

export function planInstances({
  configuration,
  takenNames,
  node,
  devices,
  instances,
}: InstancePlanInput): InstancePlan {
  const { namespace, name } = configuration.metadata
  const existing = new Map<string, Instance>()
  for (const instance of instances)
    if (isOwnedBy(instance, configuration)) existing.set(instance.metadata.name, instance)

  const { winners, collisions } = oneDevicePerDigest(devices.devices.values(), node, (digest) =>
    deviceIdOf(existing.get(instanceName(name, digest))),
  )

  const served: PlannedInstance[] = []
  const taken: TakenName[] = []
  for (const [digest, { device, shared, healthy }] of winners) {
    const owner = takenNames.get(instanceName(name, digest))
    if (owner !== undefined) {
      taken.push({ device: device.id, owner: keyOf(owner) })
      continue
    }
    const instance = existing.get(instanceName(name, digest))
    const foreignId = deviceIdOf(instance)
    const heldByAnother = foreignId !== undefined && foreignId !== printable(device.id)
    // The other device may still exist, on this node or on another node: its Instance stays.
    if (
      heldByAnother &&
      (!devices.complete || instance?.spec.nodes.some((other) => other !== node))
    ) {
      collisions.push({ digest, kept: foreignId, refused: device.id })
      continue
    }
    served.push({
      key: objectKey(namespace, instanceName(name, digest)),
      name: instanceName(name, digest),
      configuration: name,
      digest,
      device,
      shared,
      healthy,
      capacity: configuration.spec.capacity,
      properties: { ...device.properties, ...configuration.spec.brokerProperties },
      existing: instance,
    })
  }

  const planned = new Map(served.map(({ key, device }) => [key, printable(device.id)]))
  const leave = [...existing.values()].filter((instance) => {
    if (!instance.spec.nodes.includes(node)) return false
    const plannedId = planned.get(keyOf(instance))
    if (plannedId === undefined) return devices.complete
    // Another device with the same digest has replaced the device of this Instance.
    const id = deviceIdOf(instance)
    return id !== undefined && id !== plannedId
  })
  const leaving = new Set(leave.map(keyOf))
  return { served: served.filter(({ key }) => !leaving.has(key)), leave, collisions, taken }
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

/** The printable id of its device. Another program may have written the annotation. */
export function deviceIdOf(instance: Instance | undefined): string | undefined {
  const id = instance?.metadata.annotations?.[DEVICE_ID_ANNOTATION]
  return id === undefined ? undefined : printable(id)
}

/** The digests of devices: each change of one Instance plans all Instances of its Configuration. */
const digests = new WeakMap<
  Device,
  { readonly seenBy: NodeName | 'all'; readonly digest: string }
>()

function digestOf({ device, shared }: DiscoveredDevice, node: NodeName): string {
  const seenBy = shared ? 'all' : node
  const cached = digests.get(device)
  if (cached?.seenBy === seenBy) return cached.digest
  const digest = deviceDigest(device.id, shared ? { shared } : { shared, node })
  digests.set(device, { seenBy, digest })
  return digest
}

/**
 * Of several devices with the same digest, the device of the present Instance wins, or else the
 * first id by code units.
 */
function oneDevicePerDigest(
  devices: Iterable<DiscoveredDevice>,
  node: NodeName,
  holderOf: (digest: string) => string | undefined,
): { winners: Map<string, DiscoveredDevice>; collisions: DigestCollision[] } {
  const byDigest = new Map<string, DiscoveredDevice[]>()
  for (const found of [...devices].sort((a, b) => (a.device.id < b.device.id ? -1 : 1))) {
    const digest = digestOf(found, node)
    const twins = byDigest.get(digest)
    if (twins === undefined) byDigest.set(digest, [found])
    else twins.push(found)
  }
  const winners = new Map<string, DiscoveredDevice>()
  const collisions: DigestCollision[] = []
  for (const [digest, found] of byDigest) {
    const holder = holderOf(digest)
    const kept = found.find(({ device }) => printable(device.id) === holder) ?? found[0]
    if (kept === undefined) continue
    winners.set(digest, kept)
    for (const other of found)
      if (other !== kept)
        collisions.push({ digest, kept: kept.device.id, refused: other.device.id })
  }
  return { winners, collisions }
}
