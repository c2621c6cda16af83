import { type SlotName, slotIndex } from '@akrijs/api'
import { AllocationRefusedError } from '../errors.js'
import type { ChosenSlot, InstanceSlots, PreferenceRequest } from './resource.js'

// The resource of one Instance: its ids are its slots.

/**
 * The slots of a request.
 * @param inUse the claims of containers of this node
 * @throws AllocationRefusedError
 */
export function chosenSlots(
  instance: InstanceSlots,
  requests: readonly (readonly string[])[],
  inUse: Readonly<Record<SlotName, string>>,
): ChosenSlot[][] {
  const { served, usable, free, own } = instance
  const offered = new Set<string>(usable ? [...free, ...own] : [])
  return requests.map((ids) =>
    ids.map((id) => {
      if (!offered.has(id)) throw new AllocationRefusedError(refusal(id, instance, inUse))
      return { id, slot: id as SlotName, instance: served }
    }),
  )
}

/** Why a slot is not offered. */
function refusal(
  id: string,
  { served: { name, healthy }, state, slots }: InstanceSlots,
  inUse: Readonly<Record<SlotName, string>>,
): string {
  const slot = id as SlotName
  const shown = JSON.stringify(id.slice(0, 200))
  if (slotIndex(name, id) === undefined) return `${shown} is not a slot of Instance ${name}`
  if (!healthy) return `the device of Instance ${name} is not available now`
  if (state === 'absent') return `there is no Instance ${name} yet`
  if (state === 'leaving') return `Instance ${name} is being deleted`
  const usage = slots.get(slot)
  if (usage === undefined)
    return `Instance ${name} has no slot ${shown}; its capacity is ${slots.size}`
  // The Instance may have lost the claim of a running container.
  const ours = inUse[slot]
  if (ours !== undefined) return `a container of this node has slot ${id} already, by ${ours}`
  return `slot ${id} is taken${'node' in usage ? ` by node ${usage.node}` : ''}`
}

/**
 * The slots that the kubelet should choose: first those that it must include, then slots that this
 * node has claimed and no container uses, then free slots.
 */
export function preferredSlots(
  instance: InstanceSlots | undefined,
  { available, mustInclude, size }: PreferenceRequest,
): string[] {
  const left = new Set(available)
  const chosen = new Set(mustInclude)
  for (const slot of [...(instance?.own ?? []), ...(instance?.free ?? [])]) {
    if (chosen.size >= size) break
    if (left.has(slot)) chosen.add(slot)
  }
  return [...chosen]
}
