import {
  type ConfigurationName,
  heldSlots,
  type InstanceName,
  MAX_RESOURCE_NAME,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { DiscoveredDevice } from '../discovery/device-set.js'
import type { DeviceDigests } from './device-digests.js'
import { deviceIdOf, type ExistingInstances, isInstanceOf } from './existing-instances.js'
import { instanceName } from './instance-name.js'

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
  readonly configuration: ConfigurationName
  readonly node: NodeName
  readonly digests: DeviceDigests
  readonly existing: ExistingInstances
  readonly memory: NameMemory
}

interface NamedDevice {
  readonly found: DiscoveredDevice
  readonly digest: string
  readonly name: InstanceName
}

interface BucketNames {
  /** In the order of ids. */
  readonly named: readonly NamedDevice[]
  readonly collisions: readonly DigestCollision[]
}

/**
 * Names the devices with one short digest, in the order of their ids. One of them gets the short
 * name, the others get names with long digests. Present Instances decide, so all nodes decide alike
 * in the end:
 *
 * 1. A device keeps the Instance with its long name.
 * 2. A device keeps the Instance with the short name.
 * 3. If the short name belongs to another device, a device gets its long name.
 * 4. If no Instance has the short name, the first id by code units gets it.
 */
export function nameDevices(
  digest: string,
  bucket: readonly DiscoveredDevice[],
  input: NamingInput,
): BucketNames {
  const { configuration, node, digests, existing, memory } = input
  const short = instanceName(configuration, digest)
  const holder = existing.get(short)
  const candidates = bucket.filter(
    (found) =>
      (holder === undefined || isInstanceOf(holder, found, node)) && !keepsLongName(found, input),
  )
  // The Instance may be deleted while containers use its device: the device keeps its name.
  const served = memory.deviceOf(short)
  const kept = candidates.find(({ device }) => device.id === served) ?? candidates[0]

  const named: NamedDevice[] = []
  const collisions: DigestCollision[] = []
  for (const found of bucket) {
    if (found === kept) {
      named.push({ found, digest, name: short })
      continue
    }
    const long = digests.of(found, 'long')
    const name = instanceName(configuration, long)
    const other = existing.get(name)
    if (other !== undefined && !isInstanceOf(other, found, node))
      collisions.push({ digest: long, kept: deviceIdOf(other) ?? '', refused: found.device.id })
    else if (name.length <= MAX_RESOURCE_NAME) named.push({ found, digest: long, name })
    else {
      const holderId = deviceIdOf(holder) ?? kept?.device.id ?? ''
      collisions.push({ digest, kept: holderId, refused: found.device.id })
    }
  }
  return { named, collisions }
}

function keepsLongName(
  found: DiscoveredDevice,
  { configuration, node, digests, existing, memory }: NamingInput,
): boolean {
  const text = printable(found.device.id)
  const recorded = existing.longNames(text)
  // Nearly no device has a long name: its digest is computed if it may be needed.
  const longName = () => instanceName(configuration, digests.of(found, 'long'))
  const long = recorded.size > 0 && recorded.has(longName()) ? existing.get(longName()) : undefined
  if (long === undefined || !isInstanceOf(long, found, node)) {
    // The Instance was deleted, and its containers still run.
    return memory.longInUse.size > 0 && memory.longInUse.has(longName())
  }
  // Two nodes can name a device at the same moment, each in another way. All nodes leave the
  // Instance without claims, or else the Instance with the short name.
  const short = existing.get(instanceName(configuration, digests.of(found)))
  const hasBoth =
    short !== undefined && deviceIdOf(short) === text && isInstanceOf(short, found, node)
  return !hasBoth || heldSlots(long.spec.deviceUsage) > 0 || heldSlots(short.spec.deviceUsage) === 0
}
