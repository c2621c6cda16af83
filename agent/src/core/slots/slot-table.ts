import {
  type Instance,
  type InstanceName,
  parseSlotUsage,
  type SlotName,
  type SlotUsage,
  slotsOf,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { DeviceUsage } from '../../ports/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'

/** The slots of an Instance, as this node offers them. */
export interface SlotTable {
  /** The nodes that see the device, in the order of the Instance. */
  readonly nodes: readonly NodeName[]
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** The claimed slots beyond the capacity. */
  readonly beyond: ReadonlyMap<SlotName, SlotUsage>
  /** Whether a slot can be allocated: the device is healthy, and the Instance exists. */
  readonly usable: boolean
}

type Slots = Pick<SlotTable, 'slots' | 'beyond'> & { readonly capacity: number }

/**
 * The slots of each usage, which is immutable. When one Instance changes, the slots of all
 * Instances of its Configuration are computed, while the kubelet waits.
 */
const cache = new WeakMap<DeviceUsage, Slots>()

/**
 * @param instance as the cluster has it; undefined before it exists
 * @param usage @default the Instance's own
 */
export function slotTable(
  { name, capacity, healthy }: ServedInstance,
  instance: Instance | undefined,
  usage: DeviceUsage = instance?.spec.deviceUsage ?? {},
): SlotTable {
  // Until the Instance follows its Configuration, the smaller of the two capacities counts.
  const smaller = Math.min(capacity, instance?.spec.capacity ?? capacity)
  const { slots, beyond } = slotsOfUsage(name, smaller, usage)
  const exists = instance !== undefined && instance.metadata.deletionTimestamp === undefined
  return { nodes: instance?.spec.nodes ?? [], slots, beyond, usable: healthy && exists }
}

/** @param usage of no other Instance */
function slotsOfUsage(name: InstanceName, capacity: number, usage: DeviceUsage): Slots {
  const cached = cache.get(usage)
  if (cached?.capacity === capacity) return cached
  const slots = slotsOf(name, capacity, usage)
  const beyond = new Map<SlotName, SlotUsage>()
  for (const [name, holder] of Object.entries(usage)) {
    const slot = name as SlotName
    if (holder !== '' && !slots.has(slot)) beyond.set(slot, parseSlotUsage(holder))
  }
  const computed = { slots, beyond, capacity }
  cache.set(usage, computed)
  return computed
}
