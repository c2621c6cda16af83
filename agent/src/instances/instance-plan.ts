import { type Configuration, holderOf, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { DeviceBuckets } from './device-buckets.js'
import { type DigestCollision, type NameMemory, nameDevices } from './device-names.js'
import { deviceIdOf, ExistingInstances, isOwnedBy } from './existing-instances.js'
import { instanceName } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/** What this node does about the Instances of one Configuration. */
export interface InstancePlan {
  readonly served: readonly PlannedInstance[]
  readonly leave: readonly LeftInstance[]
  readonly collisions: readonly DigestCollision[]
  readonly taken: readonly TakenName[]
}

export interface PlannedInstance extends ServedInstance {
  readonly shared: boolean
  /** Whether nodes offer a resource of the Instance. */
  readonly hasResource: boolean
  /** The present Instance, if it exists. */
  readonly existing: Instance | undefined
}

/** An Instance that this node leaves. */
export interface LeftInstance {
  readonly instance: Instance
  /** `gone`: the node no longer sees the device. `renamed`: the device has another Instance. */
  readonly device: 'gone' | 'renamed'
}

/** A device without an Instance: an older Configuration has the name of the Instance. */
export interface TakenName {
  readonly device: string
  readonly owner: ObjectKey
}

/** What the plan of each bucket and of each Instance needs. */
export interface PlanState {
  readonly configuration: Configuration
  /** Older Configurations with names that Instances could have. */
  readonly takenNames: ReadonlyMap<string, Pick<Configuration, 'metadata'>>
  readonly node: NodeName
  readonly devices: DeviceBuckets
  /** Whether a missing device is gone. */
  readonly complete: boolean
  readonly existing: ExistingInstances
  readonly memory: NameMemory
}

export interface BucketPlan extends Omit<InstancePlan, 'leave'> {
  /** The long names of its devices, also those that other devices have. */
  readonly longNames: readonly InstanceName[]
}

/** Plans the devices with one short digest. */
export function planBucket(digest: string, state: PlanState): BucketPlan {
  const { configuration, takenNames, existing } = state
  const { spec, metadata } = configuration
  const { named, collisions, longNames } = nameDevices(digest, {
    ...state,
    configuration: metadata.name,
  })
  const served: PlannedInstance[] = []
  const taken: TakenName[] = []
  for (const { found, name, digest } of named) {
    const { device, shared, healthy } = found
    const owner = takenNames.get(name)
    if (owner !== undefined) {
      taken.push({ device: device.id, owner: keyOf(owner) })
      continue
    }
    served.push({
      key: objectKey(metadata.namespace, name),
      name,
      configuration: metadata.name,
      digest,
      device,
      shared,
      healthy,
      capacity: spec.capacity,
      hasResource: spec.offer !== 'configuration',
      properties: { ...device.properties, ...spec.brokerProperties },
      existing: existing.get(name),
    })
  }
  return { served, collisions, taken, longNames }
}

/** Plans whether this node leaves a present Instance. */
export function planLeave(
  instance: Instance,
  served: ReadonlyMap<InstanceName, PlannedInstance>,
  { node, complete, devices, configuration }: PlanState,
): LeftInstance | undefined {
  const { name } = instance.metadata
  const { nodes, deviceUsage } = instance.spec
  if (!nodes.includes(node) || served.has(name)) return undefined
  const nameOf = (found: DiscoveredDevice, length: 'short' | 'long') =>
    instanceName(configuration.metadata.name, devices.digestOf(found, length))
  const id = deviceIdOf(instance)
  const isRenamed =
    id !== undefined &&
    devices.withText(id).some((found) => {
      const names = [nameOf(found, 'short'), nameOf(found, 'long')]
      return names.includes(name) && names.some((each) => served.get(each)?.device === found.device)
    })
  if (!isRenamed) return complete ? { instance, device: 'gone' } : undefined
  // Containers keep their claims until they end.
  const isUsed = Object.values(deviceUsage).some((usage) => holderOf(usage) === node)
  return isUsed ? undefined : { instance, device: 'renamed' }
}

export interface InstancePlanInput
  extends Pick<PlanState, 'configuration' | 'takenNames' | 'node'> {
  readonly devices: DeviceSet
  /** At least those of the Configuration. */
  readonly instances: Iterable<Instance>
  /** @default the node has forgotten everything */
  readonly memory?: NameMemory
}

/** Plans everything. {@link InstancePlanner} has the same result, and plans what has changed. */
export function planInstances({
  devices: { devices, complete },
  instances,
  memory = NO_MEMORY,
  ...input
}: InstancePlanInput): InstancePlan {
  const existing = new ExistingInstances()
  for (const instance of instances)
    if (isOwnedBy(instance, input.configuration)) existing.set(instance.metadata.name, instance)
  const buckets = new DeviceBuckets(input.node)
  for (const [id, found] of devices) buckets.set(id, found)
  const state = { ...input, complete, devices: buckets, existing, memory }

  const plans = [...buckets.digests()].map((digest) => planBucket(digest, state))
  const served = plans.flatMap((plan) => plan.served).sort(byDevice)
  const byName = new Map(served.map((planned) => [planned.name, planned]))
  const present = [...existing.names()].flatMap((name) => existing.get(name) ?? [])
  return {
    served,
    leave: present.flatMap((instance) => planLeave(instance, byName, state) ?? []),
    collisions: plans.flatMap(({ collisions }) => collisions),
    taken: plans.flatMap(({ taken }) => taken),
  }
}

export function byDevice({ device: a }: PlannedInstance, { device: b }: PlannedInstance): number {
  return a.id < b.id ? -1 : 1
}

const NO_MEMORY: NameMemory = { deviceOf: () => undefined, longInUse: new Set() }
