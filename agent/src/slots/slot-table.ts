import { type Instance, type SlotName, type SlotUsage, slotsOf } from '@akrijs/kube'
import type { ServedInstance } from '../instances/served-instance.js'

/** The slots of an Instance as they can be given out. */
export interface SlotTable {
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** How many slots are held beyond the capacity. */
  readonly heldBeyond: number
  /** Whether anything can be given out at all: the device is seen, and there is an Instance to write claims to. */
  readonly usable: boolean
}

/**
 * @param instance as the cluster has it; none of its slots is used where there is none yet
 * @param usage who holds which slot @default as the Instance says
 */
export function slotTable(
  { name, capacity, healthy }: ServedInstance,
  instance: Instance | undefined,
  usage: Readonly<Record<string, string>> = instance?.spec.deviceUsage ?? {},
): SlotTable {
  // Where the Instance and the Configuration differ in capacity, the smaller one holds until the Instance follows.
  const slots = slotsOf(name, Math.min(capacity, instance?.spec.capacity ?? capacity), usage)
  const beyond = Object.entries(usage).filter(([slot, holder]) => holder !== '' && !slots.has(slot as SlotName))
  const leaving = instance === undefined || instance.metadata.deletionTimestamp !== undefined
  return { slots, heldBeyond: beyond.length, usable: healthy && !leaving }
}
