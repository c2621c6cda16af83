import {
  type Configuration,
  hasLongDigest,
  heldSlots,
  type Instance,
  type InstanceName,
  MAX_RESOURCE_NAME,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { inTurns, printable, slices } from '@akrijs/runtime'
import { type DeviceSet, type DiscoveredDevice, isSameDevice } from '../discovery/device-set.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'
import { deviceIdOf, isInstanceOf, isOwnedBy, isUsedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import type { DeviceDigests, DigestedName } from './instance-name.js'
import type { ServedInstance } from './served-instance.js'

/** What this node does about the Instances of one Configuration. */
export interface InstancePlan {
  /** The generation of the Configuration. */
  readonly of: number
  readonly served: Map<InstanceName, PlannedInstance>
  readonly left: ReadonlyMap<InstanceName, LeftInstance>
  readonly collisions: readonly DigestCollision[]
  readonly taken: readonly TakenName[]
  /** The Instances whose claims can change the plan: those of devices that may have long names. */
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
}

/** An Instance that this node leaves. */
export interface LeftInstance {
  readonly instance: Instance
  /** `gone`: the node no longer sees the device. `renamed`: the device has another Instance. */
  readonly device: 'gone' | 'renamed'
}

/** A device that gets no Instance, because its names belong to other devices. */
export interface DigestCollision {
  readonly kept: string
  readonly refused: string
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
  readonly instances: Pick<InstanceIndex, 'get' | 'of'>
  /** The id of the device that this node serves under the name: its Instance may be deleted. */
  deviceOf(name: InstanceName): string | undefined
  /** The names with a long digest whose slots containers of this node use, as above. */
  readonly longInUse: ReadonlySet<InstanceName>
  readonly digests: DeviceDigests
  /** The plan before: what has not changed since is taken from it. @default none */
  readonly before?: InstancePlan
}

/**
 * Plans the Instances of a Configuration, from all devices and all Instances, in turns with other
 * work. What changes meanwhile is for the next plan.
 */
export async function planInstances(input: InstancePlanInput): Promise<InstancePlan> {
  const { configuration, takenNames, instances, before } = input
  const { metadata } = configuration
  const existing = existingOf(input)
  const longNames = new Set(
    instances.of(keyOf(configuration)).flatMap((instance) => {
      const { name } = instance.metadata
      return hasLongDigest(name) && isOwnedBy(instance, configuration) ? name : []
    }),
  )
  const naming = { ...input, existing, longNames }
  const alike = before?.of === metadata.generation ? before.served : undefined
  const served = new Map<InstanceName, PlannedInstance>()
  const collisions: DigestCollision[] = []
  const taken: TakenName[] = []
  const claimed = new Set(longNames)
  for await (const some of inTurns(slices(await byShortName(input))))
    for (const [short, bucket] of some) {
      const isContested = bucket.length > 1 || bucket.some((each) => mayKeepLongName(each, naming))
      if (isContested) claimed.add(short)
      const last = isContested || takenNames.has(short) ? undefined : alike?.get(short)
      if (last && isPlanOf(last, bucket[0]) && instances.get(last.key) === last.existing) {
        served.set(short, last)
        continue
      }
      for (const each of nameDevices(bucket, naming)) {
        const owner = 'refused' in each ? undefined : takenNames.get(each.name)
        // Another device can want the short name later.
        if ('refused' in each || each.name !== short) claimed.add(short)
        if ('refused' in each) collisions.push(each)
        else if (owner === undefined) served.set(each.name, plannedOf(each, input))
        else taken.push({ device: each.found.device.id, owner: keyOf(owner) })
      }
    }
  const left = planLeaves(input, served)
  return { of: metadata.generation, served, left, collisions, taken, claimed }
}

/** The present Instance of the Configuration with a name. */
function existingOf({ configuration, instances }: UpdateInput) {
  return (name: InstanceName) => {
    const instance = instances.get(objectKey(configuration.metadata.namespace, name))
    return instance && isOwnedBy(instance, configuration) ? instance : undefined
  }
}

function plannedOf({ found, name, digest }: NamedDevice, input: UpdateInput): PlannedInstance {
  const { metadata, spec } = input.configuration
  return {
    key: objectKey(metadata.namespace, name),
    name,
    configuration: metadata.name,
    digest,
    device: found.device,
    shared: found.shared,
    healthy: found.healthy,
    capacity: spec.capacity,
    hasResource: spec.offer !== 'configuration',
    properties: { ...found.device.properties, ...spec.brokerProperties },
    hash: `${metadata.generation} ${found.shared} ${found.healthy} ${found.device.hash}`,
    existing: existingOf(input)(name),
  }
}

function isPlanOf(planned: PlannedInstance, { device, shared, healthy }: DiscoveredDevice) {
  const isSame = planned.shared === shared && planned.healthy === healthy
  return isSame && planned.device.hash === device.hash
}

/** Devices with the same short digest, and so the same short name: nearly always one. */
type Bucket = [DiscoveredDevice, ...DiscoveredDevice[]]

async function byShortName({ devices: { devices }, digests }: InstancePlanInput) {
  digests.begin(devices.size)
  const buckets = new Map<InstanceName, Bucket>()
  for await (const some of inTurns(slices(devices.values())))
    for (const found of some) {
      const { name } = digests.of(found.device.id, found.shared)
      const bucket = buckets.get(name)
      if (bucket === undefined) buckets.set(name, [found])
      else bucket.push(found)
    }
  return buckets
}

interface Naming extends InstancePlanInput {
  /** The present Instance of the Configuration. */
  existing(name: InstanceName): Instance | undefined
  /** Those with a long digest. */
  readonly longNames: ReadonlySet<InstanceName>
}

interface NamedDevice extends DigestedName {
  readonly found: DiscoveredDevice
}

/**
 * Names the devices with one short digest. One of them gets the short name, the others get names
 * with long digests. Present Instances decide, so all nodes decide alike in the end:
 *
 * 1. A device keeps the Instance with its long name.
 * 2. A device keeps the Instance with the short name.
 * 3. If the short name belongs to another device, a device gets its long name.
 * 4. If no Instance has the short name, the first id by code units gets it.
 */
function nameDevices(bucket: Bucket, naming: Naming): (NamedDevice | DigestCollision)[] {
  const { node, digests, existing, deviceOf } = naming
  const short = digests.of(bucket[0].device.id, bucket[0].shared)
  const holder = existing(short.name)
  const devices = bucket.toSorted((a, b) => (a.device.id < b.device.id ? -1 : 1))
  const candidates = devices.filter(
    (found) =>
      (holder === undefined || isInstanceOf(holder, found, node)) && !keepsLongName(found, naming),
  )
  // The Instance may be deleted while containers use its device: the device keeps its name.
  const served = deviceOf(short.name)
  const kept = candidates.find(({ device }) => device.id === served) ?? candidates[0]
  return devices.map((found) => {
    if (found === kept) return { found, ...short }
    const long = digests.of(found.device.id, found.shared, 'long')
    const other = existing(long.name)
    const refused = found.device.id
    if (other !== undefined && !isInstanceOf(other, found, node))
      return { kept: deviceIdOf(other) ?? '', refused }
    if (long.name.length <= MAX_RESOURCE_NAME) return { found, ...long }
    return { kept: deviceIdOf(holder) ?? kept?.device.id ?? '', refused }
  })
}

/** Whether the device may keep an Instance with its long name. Nearly no device may. */
function mayKeepLongName(
  found: DiscoveredDevice,
  { digests, longNames, longInUse }: Naming,
): boolean {
  if (longNames.size + longInUse.size === 0) return false
  const { name } = digests.of(found.device.id, found.shared, 'long')
  return longNames.has(name) || longInUse.has(name)
}

function keepsLongName(found: DiscoveredDevice, naming: Naming): boolean {
  const { node, digests, existing, longInUse } = naming
  if (!mayKeepLongName(found, naming)) return false
  const { name } = digests.of(found.device.id, found.shared, 'long')
  const long = existing(name)
  // The Instance may have been deleted while containers use its slots.
  if (long === undefined || !isInstanceOf(long, found, node)) return longInUse.has(name)
  // Two nodes can name a device at the same moment, each in another way. All nodes leave the
  // Instance without claims, or else the Instance with the short name.
  const short = existing(digests.of(found.device.id, found.shared).name)
  if (short === undefined || deviceIdOf(short) === undefined || !isInstanceOf(short, found, node))
    return true
  return heldSlots(long.spec.deviceUsage) > 0 || heldSlots(short.spec.deviceUsage) === 0
}

/** Plans which present Instances this node leaves. */
function planLeaves(
  { configuration, instances, node, digests, devices: { complete } }: InstancePlanInput,
  served: ReadonlyMap<InstanceName, PlannedInstance>,
): Map<InstanceName, LeftInstance> {
  const left = new Map<InstanceName, LeftInstance>()
  const others = instances.of(keyOf(configuration)).filter((instance) => {
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
        ofDevice.add(digests.of(planned.device.id, planned.shared, length).name)
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

type UpdateInput = Pick<InstancePlanInput, 'configuration' | 'instances' | 'node'>

/**
 * Takes a changed Instance over into the plan. An Instance that is still that of its device changes
 * nothing else of the plan.
 * @returns false if another plan is needed
 */
export function updatePlan(
  { served, claimed }: InstancePlan,
  name: InstanceName,
  { configuration, instances, node }: UpdateInput,
): boolean {
  const planned = served.get(name)
  const existing = planned && instances.get(planned.key)
  if (planned === undefined || existing === undefined) return false
  if (claimed.has(name) || hasLongDigest(name)) return false
  if (!isOwnedBy(existing, configuration) || !isInstanceOf(existing, planned, node)) return false
  served.set(name, { ...planned, existing })
  return true
}

/** So many changed devices at once are for a whole plan. */
const MAX_CHANGES = 100

/**
 * Takes new and changed devices over into the plan, if no other device has their names, or wants
 * them: a whole plan of 10,000 devices takes a processor for 20 ms.
 * @param last the devices of the plan
 * @returns the names of their Instances; undefined if another plan is needed
 */
export function takeDevices(
  plan: InstancePlan,
  last: DeviceSet,
  input: Omit<InstancePlanInput, 'before' | 'takenNames' | 'deviceOf'>,
): readonly InstanceName[] | undefined {
  const { configuration, devices, digests, longInUse, node } = input
  const { served, left, claimed, taken, of } = plan
  const isAlike = of === configuration.metadata.generation && devices.complete === last.complete
  if (!isAlike || left.size + taken.length > 0) return undefined
  const changed: NamedDevice[] = []
  let kept = 0
  for (const [id, found] of devices.devices) {
    const before = last.devices.get(id)
    if (before !== undefined) kept++
    if (before !== undefined && isSameDevice(found, before)) continue
    if (before !== undefined && before.shared !== found.shared) return undefined
    if (changed.push({ found, ...digests.of(id, found.shared) }) > MAX_CHANGES) return undefined
  }
  if (kept < last.devices.size) return undefined
  const existing = existingOf(input)
  const isAlone = ({ found, name }: NamedDevice) => {
    const [planned, holder] = [served.get(name), existing(name)]
    const long = digests.of(found.device.id, found.shared, 'long').name
    const isClaimed = [name, long].some((each) => claimed.has(each) || longInUse.has(each))
    if (isClaimed || (planned !== undefined && planned.device.id !== found.device.id)) return false
    return holder === undefined || isInstanceOf(holder, found, node)
  }
  const names = changed.map(({ name }) => name)
  if (new Set(names).size < names.length || !changed.every(isAlone)) return undefined
  for (const each of changed) served.set(each.name, plannedOf(each, input))
  return names
}
