import type { Configuration, Instance } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/runtime/handler'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { deviceDigest, instanceName } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/** Annotation of an Instance: the id of its device, so that two ids with one digest are noticed rather than merged. */
export const DEVICE_ID_ANNOTATION = 'akri.sh/device-id'

/** What this node should do about the Instances of one Configuration. */
export interface InstancePlan {
  readonly served: readonly PlannedInstance[]
  /** Instances that this node is in although it does not see their device any more. */
  readonly leave: readonly Instance[]
  readonly collisions: readonly DigestCollision[]
}

export interface PlannedInstance extends ServedInstance {
  readonly shared: boolean
  /** The Instance as it stands, if it does. */
  readonly existing: Instance | undefined
}

/** Two devices whose ids have one digest: the second one gets no Instance. */
export interface DigestCollision {
  readonly digest: string
  readonly kept: string
  readonly refused: string
}

export interface InstancePlanInput {
  readonly configuration: Configuration
  readonly node: NodeName
  readonly devices: DeviceSet
  /** All Instances that the cluster has. */
  readonly instances: Iterable<Instance>
}

export function planInstances({
  configuration,
  node,
  devices,
  instances,
}: InstancePlanInput): InstancePlan {
  const { namespace, name } = configuration.metadata
  const existing = new Map<string, Instance>()
  for (const instance of instances) {
    if (instance.metadata.namespace === namespace && isOwnedBy(instance, configuration))
      existing.set(instance.metadata.name, instance)
  }

  const { winners, collisions } = oneDevicePerDigest(devices.devices.values(), node, (digest) =>
    idOf(existing.get(instanceName(name, digest))),
  )

  const served: PlannedInstance[] = []
  for (const [digest, { device, shared, healthy }] of winners) {
    const instance = existing.get(instanceName(name, digest))
    const foreignId = idOf(instance)
    const heldByAnother = foreignId !== undefined && foreignId !== device.id
    // Where the other device may still be there, here or on another node, its Instance is not to be taken away.
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

  const planned = new Map(served.map(({ key, device }) => [key, device.id]))
  const leave = [...existing.values()].filter((instance) => {
    if (!instance.spec.nodes.includes(node)) return false
    const plannedId = planned.get(keyOf(instance))
    if (plannedId === undefined) return devices.complete
    // Another device with the same digest has taken the place of this Instance's.
    return idOf(instance) !== undefined && idOf(instance) !== plannedId
  })
  const leaving = new Set(leave.map(keyOf))
  return { served: served.filter(({ key }) => !leaving.has(key)), leave, collisions }
}

/** Whether the Configuration, and none of an earlier life of the same name, is the owner of the Instance. */
export function isOwnedBy(
  instance: Instance,
  configuration: Pick<Configuration, 'metadata'>,
): boolean {
  return (instance.metadata.ownerReferences ?? []).some(
    (owner) => owner.kind === 'Configuration' && owner.uid === configuration.metadata.uid,
  )
}

function idOf(instance: Instance | undefined): string | undefined {
  return instance?.metadata.annotations?.[DEVICE_ID_ANNOTATION]
}

/** Of devices whose list still stands: each change of one Instance makes a plan of all. */
const digests = new WeakMap<
  Device,
  { readonly seenBy: NodeName | 'all'; readonly digest: string }
>()

function digestOf({ device, shared }: DiscoveredDevice, node: NodeName): string {
  const seenBy = shared ? 'all' : node
  const known = digests.get(device)
  if (known?.seenBy === seenBy) return known.digest
  const digest = deviceDigest(device.id, shared ? { shared } : { shared, node })
  digests.set(device, { seenBy, digest })
  return digest
}

/** Of several ids with one digest, the one that has the Instance already stays; else the first in order of code units. */
function oneDevicePerDigest(
  devices: Iterable<DiscoveredDevice>,
  node: NodeName,
  holderOf: (digest: string) => string | undefined,
): { winners: Map<string, DiscoveredDevice>; collisions: DigestCollision[] } {
  const winners = new Map<string, DiscoveredDevice>()
  const collisions: DigestCollision[] = []
  const inOrder = [...devices].sort((a, b) => (a.device.id < b.device.id ? -1 : 1))
  for (const found of inOrder) {
    const digest = digestOf(found, node)
    const winner = winners.get(digest)
    if (winner === undefined) {
      winners.set(digest, found)
      continue
    }
    const [kept, refused] = holderOf(digest) === found.device.id ? [found, winner] : [winner, found]
    winners.set(digest, kept)
    collisions.push({ digest, kept: kept.device.id, refused: refused.device.id })
  }
  return { winners, collisions }
}
