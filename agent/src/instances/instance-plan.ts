import { type Configuration, holderOf, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { inTurns, printable } from '@akrijs/runtime'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { DeviceDigests } from './device-digests.js'
import { type DigestCollision, type NameMemory, nameDevices } from './device-names.js'
import { deviceIdOf, ExistingInstances, isOwnedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import { instanceName } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/** What this node does about the Instances of one Configuration. */
export interface InstancePlan {
  /** In the order of the ids of their devices; those with one short digest together. */
  readonly served: ReadonlyMap<InstanceName, PlannedInstance>
  readonly left: ReadonlyMap<InstanceName, LeftInstance>
  readonly collisions: readonly DigestCollision[]
  readonly taken: readonly TakenName[]
  /** The Instances whose claims can change the plan: those of devices with long names. */
  readonly claimed: ReadonlySet<InstanceName>
}

export interface PlannedInstance extends ServedInstance {
  readonly shared: boolean
  /** Whether nodes offer a resource of the Instance. */
  readonly hasResource: boolean
  /** Changes with all that its device plugin has of it. */
  readonly hash: string
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

export interface InstancePlanInput {
  readonly configuration: Configuration
  /** Older Configurations with names that Instances could have. */
  readonly takenNames: ReadonlyMap<string, Pick<Configuration, 'metadata'>>
  readonly node: NodeName
  readonly devices: DeviceSet
  /** At least those of the Configuration. */
  readonly instances: Iterable<Instance>
  /** @default the node has forgotten everything */
  readonly memory?: NameMemory
  /** @default those of no plan before */
  readonly digests?: DeviceDigests
}

/**
 * Plans the Instances of a Configuration, from all devices and all Instances, in turns with other
 * work. What changes meanwhile is for the next plan.
 */
export async function planInstances(input: InstancePlanInput): Promise<InstancePlan> {
  const { configuration, takenNames, node, devices, memory = NO_MEMORY } = input
  const { digests = new DeviceDigests(node) } = input
  const { spec, metadata } = configuration
  const existing = new ExistingInstances(
    [...input.instances].filter((instance) => isOwnedBy(instance, configuration)),
  )
  digests.begin()
  // Devices with one short digest compete for one name. Nearly all buckets have one device.
  const buckets = new Map<string, DiscoveredDevice[]>()
  for await (const found of inTurns([...devices.devices.values()].sort(byId))) {
    const digest = digests.of(found)
    const bucket = buckets.get(digest)
    if (bucket === undefined) buckets.set(digest, [found])
    else bucket.push(found)
  }

  const served = new Map<InstanceName, PlannedInstance>()
  const collisions: DigestCollision[] = []
  const taken: TakenName[] = []
  const naming = { configuration: metadata.name, node, digests, existing, memory }
  for await (const [short, bucket] of inTurns(buckets)) {
    const names = nameDevices(short, bucket, naming)
    collisions.push(...names.collisions)
    for (const { found, name, digest } of names.named) {
      const { device, shared, healthy } = found
      const owner = takenNames.get(name)
      if (owner !== undefined) {
        taken.push({ device: device.id, owner: keyOf(owner) })
        continue
      }
      served.set(name, {
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
        hash: `${metadata.generation} ${shared} ${healthy} ${device.hash}`,
        existing: existing.get(name),
      })
    }
  }
  const left = planLeaves(input, { existing, served, digests })
  return { served, left, collisions, taken, claimed: existing.withLongNames }
}

interface PlanState {
  readonly existing: ExistingInstances
  readonly served: ReadonlyMap<InstanceName, PlannedInstance>
  readonly digests: DeviceDigests
}

/** Plans which present Instances this node leaves. */
function planLeaves(
  { configuration, node, devices: { complete } }: InstancePlanInput,
  { existing, served, digests }: PlanState,
): Map<InstanceName, LeftInstance> {
  const left = new Map<InstanceName, LeftInstance>()
  const others = [...existing].filter(
    ({ spec, metadata }) => spec.nodes.includes(node) && !served.has(metadata.name),
  )
  if (others.length === 0) return left
  /** By the printable id of one of these, the names that served devices have, or could have. */
  const names = new Map(others.map((instance) => [deviceIdOf(instance), new Set<InstanceName>()]))
  for (const planned of served.values()) {
    const ofDevice = names.get(printable(planned.device.id))
    if (ofDevice !== undefined)
      for (const length of ['short', 'long'] as const)
        ofDevice.add(instanceName(configuration.metadata.name, digests.of(planned, length)))
  }
  for (const instance of others) {
    const { name } = instance.metadata
    const isRenamed = names.get(deviceIdOf(instance))?.has(name) === true
    // Containers keep their claims until they end.
    if (isRenamed && !isUsedBy(instance, node)) left.set(name, { instance, device: 'renamed' })
    if (!isRenamed && complete) left.set(name, { instance, device: 'gone' })
  }
  return left
}

function isUsedBy({ spec }: Instance, node: NodeName): boolean {
  return Object.values(spec.deviceUsage).some((usage) => holderOf(usage) === node)
}

/**
 * The Instances that devices of the plan have at present. A shared Instance counts before it names
 * this node.
 */
export function presentInstances(
  served: InstancePlan['served'],
  { configuration, instances, node }: PresentInput,
): Instance[] {
  return [...served.values()].flatMap(({ key }) => {
    const instance = instances.get(key)
    if (instance === undefined || !isOwnedBy(instance, configuration)) return []
    return instance.spec.shared || instance.spec.nodes.includes(node) ? instance : []
  })
}

interface PresentInput extends Pick<InstancePlanInput, 'configuration' | 'node'> {
  readonly instances: Pick<InstanceIndex, 'get'>
}

function byId({ device: a }: DiscoveredDevice, { device: b }: DiscoveredDevice): number {
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}

const NO_MEMORY: NameMemory = { deviceOf: () => undefined, longInUse: new Set() }
