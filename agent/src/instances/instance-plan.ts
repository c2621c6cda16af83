import {
  type Configuration,
  hasLongDigest,
  holderOf,
  type Instance,
  type InstanceName,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { inTurns, printable, slices } from '@akrijs/runtime'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'
import {
  type DigestCollision,
  mayKeepLongName,
  type NameMemory,
  nameDevices,
} from './device-names.js'
import { deviceIdOf, isInstanceOf, isOwnedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import type { DeviceDigests } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/** What this node does about the Instances of one Configuration. */
export interface InstancePlan {
  /** The generation of the Configuration. */
  readonly of: number
  readonly served: Map<InstanceName, PlannedInstance>
  readonly left: ReadonlyMap<InstanceName, LeftInstance>
  readonly collisions: readonly DigestCollision[]
  readonly taken: readonly TakenName[]
  /** The Instances whose claims can change the plan: those of devices with long names. */
  readonly claimed: ReadonlySet<InstanceName>
}

export interface PlannedInstance extends ServedInstance {
  readonly device: HashedDevice
  readonly shared: boolean
  /** Whether nodes offer a resource of the Instance. */
  readonly hasResource: boolean
  /** Changes with all that its device plugin has of it. */
  readonly hash: string
  /** The present Instance, if it exists. */
  readonly existing: Instance | undefined
  /** `held`: the Instance is being deleted, and its finalizers hold it. */
  readonly presence: 'absent' | 'present' | 'held'
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
  readonly instances: Pick<InstanceIndex, 'get' | 'of' | 'countOf' | 'longNamedOf'>
  readonly memory: NameMemory
  readonly digests: DeviceDigests
  /** The plan before: what has not changed since is taken from it. @default none */
  readonly before?: InstancePlan
}

/**
 * Plans the Instances of a Configuration, from all devices and all Instances, in turns with other
 * work. What changes meanwhile is for the next plan.
 */
export async function planInstances(input: InstancePlanInput): Promise<InstancePlan> {
  const { configuration, takenNames, node, devices, instances, memory, digests, before } = input
  const { spec, metadata } = configuration
  const existing = (name: InstanceName) => {
    const instance = instances.get(objectKey(metadata.namespace, name))
    return instance && isOwnedBy(instance, configuration) ? instance : undefined
  }
  const long = [...instances.longNamedOf(keyOf(configuration))]
  const longOfConfiguration = long.filter((each) => isOwnedBy(each, configuration))
  const longNames = new Set(longOfConfiguration.map(({ metadata }) => metadata.name))
  const served = new Map<InstanceName, PlannedInstance>()
  const collisions: DigestCollision[] = []
  const taken: TakenName[] = []
  const claimed = new Set(longNames)
  const naming = { node, digests, existing, longNames, memory }
  const isAlike = takenNames.size === 0 && before?.of === metadata.generation
  const { first, others } = await byShortName(devices.devices, digests)
  for await (const some of inTurns(slices(first)))
    for (const [short, found] of some) {
      const isAlone = !others.has(short) && !mayKeepLongName(found, naming)
      const planned = isAlike && isAlone ? before.served.get(short) : undefined
      if (planned && isPlanOf(planned, found, instances.get(planned.key))) {
        served.set(short, planned)
        continue
      }
      const bucket = [found, ...(others.get(short) ?? [])]
      if (bucket.some((each) => mayKeepLongName(each, naming))) claimed.add(short)
      const names = nameDevices(digests.of(found), bucket, naming)
      collisions.push(...names.collisions)
      for (const { found, name, digest } of names.named) {
        const { device, shared, healthy } = found
        const owner = takenNames.get(name)
        if (owner !== undefined) {
          taken.push({ device: device.id, owner: keyOf(owner) })
          continue
        }
        const present = existing(name)
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
          existing: present,
          presence: presenceOf(present, node),
        })
      }
    }
  const left = planLeaves(input, served)
  return { of: metadata.generation, served, left, collisions, taken, claimed }
}

/**
 * The devices by their short name. Devices with one short digest compete for the name: nearly all
 * devices have a digest of their own.
 */
async function byShortName(devices: DeviceSet['devices'], digests: DeviceDigests) {
  digests.begin(devices)
  const first = new Map<InstanceName, DiscoveredDevice>()
  const others = new Map<InstanceName, DiscoveredDevice[]>()
  for await (const some of inTurns(slices(devices.values())))
    for (const found of some) {
      const { name } = digests.of(found)
      if (first.has(name)) others.set(name, [...(others.get(name) ?? []), found])
      else first.set(name, found)
    }
  return { first, others }
}

/** Whether a plan of the device, and of its present Instance, would be this one. */
function isPlanOf(
  planned: PlannedInstance,
  { device, shared, healthy }: DiscoveredDevice,
  existing: Instance | undefined,
): boolean {
  return (
    planned.existing === existing &&
    planned.healthy === healthy &&
    planned.shared === shared &&
    planned.device.hash === device.hash
  )
}

/** Plans which present Instances this node leaves. */
function planLeaves(
  { configuration, instances, node, digests, devices: { complete } }: InstancePlanInput,
  served: ReadonlyMap<InstanceName, PlannedInstance>,
): Map<InstanceName, LeftInstance> {
  const left = new Map<InstanceName, LeftInstance>()
  const key = keyOf(configuration)
  let present = 0
  for (const { existing } of served.values()) if (existing !== undefined) present++
  if (present === instances.countOf(key)) return left
  const others = [...instances.of(key)].filter((instance) => {
    const isServed = served.has(instance.metadata.name)
    return !isServed && isOwnedBy(instance, configuration) && instance.spec.nodes.includes(node)
  })
  if (others.length === 0) return left
  /** By the printable id of one of these, the names that served devices have, or could have. */
  const names = new Map(others.map((instance) => [deviceIdOf(instance), new Set<InstanceName>()]))
  for (const planned of served.values()) {
    const ofDevice = names.get(printable(planned.device.id))
    if (ofDevice !== undefined)
      for (const length of ['short', 'long'] as const)
        ofDevice.add(digests.of(planned, length).name)
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
 * Brings a plan up to date with changed Instances: one that is still that of its device changes
 * nothing else of the plan.
 * @returns false if another plan is needed
 */
export function updatePlan(
  { served, claimed }: InstancePlan,
  changed: Iterable<InstanceName>,
  { configuration, instances, node }: UpdateInput,
): boolean {
  const updates: PlannedInstance[] = []
  for (const name of changed) {
    const planned = served.get(name)
    const existing = planned && instances.get(planned.key)
    if (planned === undefined || existing === undefined) return false
    if (claimed.has(name) || hasLongDigest(name)) return false
    if (!isOwnedBy(existing, configuration) || !isInstanceOf(existing, planned, node)) return false
    updates.push({ ...planned, existing, presence: presenceOf(existing, node) })
  }
  for (const planned of updates) served.set(planned.name, planned)
  return true
}

type UpdateInput = Pick<InstancePlanInput, 'configuration' | 'instances' | 'node'>

/** A shared Instance counts before it names this node. */
function presenceOf(instance: Instance | undefined, node: NodeName): PlannedInstance['presence'] {
  if (instance === undefined) return 'absent'
  const { metadata, spec } = instance
  if (!spec.shared && !spec.nodes.includes(node)) return 'absent'
  return metadata.deletionTimestamp === undefined ? 'present' : 'held'
}
