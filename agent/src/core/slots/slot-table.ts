import {
  type Instance,
  type InstanceName,
  type SlotName,
  type SlotUsage,
  slotsOf,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { DeviceUsage } from '../../ports/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'

/** The slots of an Instance as they can be given out. */
export interface SlotTable {
  /** Those that see the device, in the order of the Instance. */
  readonly nodes: readonly NodeName[]
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** How many slots are held beyond the capacity. */
  readonly heldOverCapacity: number
  /** Whether anything can be given out at all: the device is seen, and there is an Instance to write claims to. */
  readonly usable: boolean
}

type Slots = Pick<SlotTable, 'slots' | 'heldOverCapacity'> & { readonly capacity: number }

/**
 * What was made of a usage, which is never changed, only replaced: whenever one Instance of a Configuration has changed, the
 * slots of all of them are asked for, and the kubelet waits.
 */
const known = new WeakMap<DeviceUsage, Slots>()

/**
 * @param instance as the cluster has it; none of its slots is used where there is none yet
 * @param usage who holds which slot @default as the Instance says
 */
export function slotTable(
  { name, capacity, healthy }: ServedInstance,
  instance: Instance | undefined,
  usage: DeviceUsage = instance?.spec.deviceUsage ?? {},
): SlotTable {
  // Where the Instance and the Configuration differ in capacity, the smaller one holds until the Instance follows.
  const { slots, heldOverCapacity } = slotsOfUsage(
    name,
    Math.min(capacity, instance?.spec.capacity ?? capacity),
    usage,
  )
  const leaving = instance === undefined || instance.metadata.deletionTimestamp !== undefined
  return {
    nodes: instance?.spec.nodes ?? [],
    slots,
    heldOverCapacity: heldOverCapacity,
    usable: healthy && !leaving,
  }
}

/** @param usage of this one Instance */
function slotsOfUsage(name: InstanceName, capacity: number, usage: DeviceUsage): Slots {
  const before = known.get(usage)
  if (before?.capacity === capacity) return before
  const slots = slotsOf(name, capacity, usage)
  const beyond = Object.entries(usage).filter(
    ([slot, holder]) => holder !== '' && !slots.has(slot as SlotName),
  )
  const made = { slots, heldOverCapacity: beyond.length, capacity }
  known.set(usage, made)
  return made
}
