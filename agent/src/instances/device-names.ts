import { heldSlots, type Instance, type InstanceName, MAX_RESOURCE_NAME } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { DiscoveredDevice } from '../discovery/device-set.js'
import { deviceIdOf, isInstanceOf } from './existing-instances.js'
import type { DeviceDigests, DigestedName } from './instance-name.js'

/** What this node knows of names whose Instances may be deleted. */
export interface NameMemory {
  /** The id of the device that this node serves under the name. */
  deviceOf(name: InstanceName): string | undefined
  /** The Instances with a long name whose slots containers of this node use. */
  readonly longInUse: ReadonlySet<InstanceName>
}

/** A device that gets no Instance, because its names belong to other devices. */
export interface DigestCollision {
  readonly digest: string
  readonly kept: string
  readonly refused: string
}

interface NamingInput {
  readonly node: NodeName
  readonly digests: DeviceDigests
  /** The present Instances of the Configuration. */
  existing(name: InstanceName): Instance | undefined
  /** Those with a long digest. */
  readonly longNames: ReadonlySet<InstanceName>
  readonly memory: NameMemory
}

interface NamedDevice extends DigestedName {
  readonly found: DiscoveredDevice
}

interface BucketNames {
  readonly named: readonly NamedDevice[]
  readonly collisions: readonly DigestCollision[]
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
export function nameDevices(
  short: DigestedName,
  devices: readonly DiscoveredDevice[],
  input: NamingInput,
): BucketNames {
  const { node, digests, existing, memory } = input
  const bucket = devices.toSorted(byId)
  const holder = existing(short.name)
  const candidates = bucket.filter(
    (found) =>
      (holder === undefined || isInstanceOf(holder, found, node)) && !keepsLongName(found, input),
  )
  // The Instance may be deleted while containers use its device: the device keeps its name.
  const served = memory.deviceOf(short.name)
  const kept = candidates.find(({ device }) => device.id === served) ?? candidates[0]

  const named: NamedDevice[] = []
  const collisions: DigestCollision[] = []
  for (const found of bucket) {
    if (found === kept) {
      named.push({ found, ...short })
      continue
    }
    const long = digests.of(found, 'long')
    const other = existing(long.name)
    if (other !== undefined && !isInstanceOf(other, found, node))
      collisions.push({
        digest: long.digest,
        kept: deviceIdOf(other) ?? '',
        refused: found.device.id,
      })
    else if (long.name.length <= MAX_RESOURCE_NAME) named.push({ found, ...long })
    else {
      const holderId = deviceIdOf(holder) ?? kept?.device.id ?? ''
      collisions.push({ digest: short.digest, kept: holderId, refused: found.device.id })
    }
  }
  return { named, collisions }
}

/** Whether the device may keep an Instance with its long name. Nearly no device may. */
export function mayKeepLongName(
  found: DiscoveredDevice,
  { digests, longNames, memory: { longInUse } }: NamingInput,
): boolean {
  if (longNames.size + longInUse.size === 0) return false
  const { name } = digests.of(found, 'long')
  return longNames.has(name) || longInUse.has(name)
}

function keepsLongName(found: DiscoveredDevice, input: NamingInput): boolean {
  const { node, digests, existing, memory } = input
  if (!mayKeepLongName(found, input)) return false
  const { name } = digests.of(found, 'long')
  const long = existing(name)
  // The Instance may have been deleted while containers use its slots.
  if (long === undefined || !isInstanceOf(long, found, node)) return memory.longInUse.has(name)
  // Two nodes can name a device at the same moment, each in another way. All nodes leave the
  // Instance without claims, or else the Instance with the short name.
  const short = existing(digests.of(found).name)
  const hasBoth =
    deviceIdOf(short) !== undefined && short !== undefined && isInstanceOf(short, found, node)
  return !hasBoth || heldSlots(long.spec.deviceUsage) > 0 || heldSlots(short.spec.deviceUsage) === 0
}

function byId({ device: a }: DiscoveredDevice, { device: b }: DiscoveredDevice): number {
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}
