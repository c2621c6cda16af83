import { type Configuration, GROUP, type InstanceName, instanceNameParts } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import type { DeviceSet } from '../discovery/device-set.js'
import { type AllocationLedger, instanceOf } from '../slots/allocation-ledger.js'
import type { LostDevice } from '../slots/slot-book.js'
import { deviceIdOf } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import type { DeviceDigests } from './instance-name.js'
import type { InstancePlan } from './instance-plan.js'

interface LostWhileAwayInput {
  readonly configuration: Configuration
  readonly plan: InstancePlan
  readonly devices: DeviceSet
  readonly digests: DeviceDigests
  readonly instances: Pick<InstanceIndex, 'get'>
  readonly ledger: Pick<AllocationLedger, 'list'>
  readonly node: NodeName
}

/**
 * The devices of running containers that went while the agent was away: no plugin of this agent has
 * served them. Later, a plugin is withdrawn with its device.
 */
export function lostWhileAway({
  configuration: { metadata },
  plan,
  devices,
  digests,
  instances,
  ledger,
  node,
}: LostWhileAwayInput): LostDevice[] {
  const missing = new Set<InstanceName>()
  for (const { slot, resourceName } of ledger.list()) {
    const name = instanceOf(slot)
    const isOfConfiguration = instanceNameParts(name)?.configuration === metadata.name
    const resources = [`${GROUP}/${metadata.name}`, `${GROUP}/${name}`]
    if (isOfConfiguration && resources.includes(resourceName) && !plan.served.has(name))
      missing.add(name)
  }
  // The Instance of a device that a bound leaves out may be deleted: only the digest has its name.
  for (const found of missing.size > 0 ? (devices.leftOut?.listed.values() ?? []) : [])
    for (const length of ['short', 'long'] as const) missing.delete(digests.of(found, length).name)
  return [...missing].flatMap((name) => {
    const instance = instances.get(objectKey(metadata.namespace, name))
    // Another Instance may have the device, while containers hold slots of this Instance.
    const isHere = instance?.spec.nodes.includes(node) === true
    const isElsewhere = isHere && plan.left.get(name)?.device !== 'gone'
    if (isElsewhere) return []
    return { id: deviceIdOf(instance), instance: name, configuration: metadata.name }
  })
}
