import { slotIndex, slotName } from './slot-usage.js'
import type { Instance } from './types.js'

// Agents of the existing system read Instances in one form only. Where both systems run, the
// programs write that form.

/** The other system whose agents run in the cluster too. */
export const COMPATIBILITIES = ['off', 'akri-0.13'] as const
export type Compatibility = (typeof COMPATIBILITIES)[number]

type SlotsOfInstance = {
  readonly metadata: Pick<Instance['metadata'], 'name'>
  readonly spec: Pick<Instance['spec'], 'capacity' | 'deviceUsage'>
}

/**
 * Whether free slots are left out of `deviceUsage`: agents of the existing system cannot claim a
 * slot that has an empty text. An Instance with a text for each slot keeps its form.
 */
export function omitsFreeSlots(instance: SlotsOfInstance, compatibility: Compatibility): boolean {
  return compatibility !== 'off' && !isFilled(instance)
}

/** Whether each slot of the capacity has a text, and a free slot among them an empty text. */
function isFilled({ metadata: { name }, spec: { capacity, deviceUsage } }: SlotsOfInstance) {
  if (!Object.values(deviceUsage).includes('')) return false
  for (let index = 0; index < capacity; index++)
    if (!Object.hasOwn(deviceUsage, slotName(name, index))) return false
  return true
}

/**
 * The capacity that can be written now. An agent of the existing system does not serve an Instance
 * with a claim beyond the capacity: a lower capacity waits for the release of such slots.
 */
export function writableCapacity(
  { metadata: { name }, spec }: SlotsOfInstance,
  capacity: number,
  compatibility: Compatibility,
): number {
  if (compatibility === 'off' || capacity >= spec.capacity) return capacity
  const claimed = Object.entries(spec.deviceUsage).map(([slot, usage]) =>
    usage === '' ? 0 : (slotIndex(name, slot) ?? 0) + 1,
  )
  return claimed.reduce((most, count) => Math.max(most, Math.min(spec.capacity, count)), capacity)
}

/** The claims of slots that agents of the other system can read. */
export function readableClaims(
  { metadata: { name }, spec: { capacity } }: SlotsOfInstance,
  claims: Readonly<Record<string, string>>,
  compatibility: Compatibility,
): Readonly<Record<string, string>> {
  if (compatibility === 'off') return claims
  const isReadable = (slot: string) => (slotIndex(name, slot) ?? capacity) < capacity
  return Object.fromEntries(Object.entries(claims).filter(([slot]) => isReadable(slot)))
}
