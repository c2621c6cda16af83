import type { SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { type InstanceSlots, slotsInClaimOrder } from './instance-slots.js'

/** The kubelet asks which ids of a resource it should give to a container. */
export interface PreferenceRequest {
  readonly available: readonly string[]
  readonly mustInclude: readonly string[]
  readonly size: number
}

/**
 * The slots of an Instance, and whether this node offers each of them through the Instance's
 * resource: the slot can be claimed, or this node has it through that resource.
 */
export function offeredSlots(
  { usable, slots, free }: InstanceSlots,
  node: NodeName,
): Map<SlotName, boolean> {
  const claimable = new Set(free)
  const offered = new Map<SlotName, boolean>()
  slots.forEach((usage, slot) => {
    const isHere = usage.level === 'instance' && usage.node === node
    offered.set(slot, usable && (isHere || claimable.has(slot)))
  })
  return offered
}

/**
 * The slots that the kubelet should choose: first those that it must include, then slots that this
 * node has claimed and no container uses, then free slots in the order of {@link
 * slotsInClaimOrder}.
 */
export function preferredSlots(
  { slots, nodes, free }: InstanceSlots,
  node: NodeName,
  { available, mustInclude, size }: PreferenceRequest,
): string[] {
  const claimed = slotsInClaimOrder(slots, { node, nodes }).flatMap(([slot, usage]) =>
    usage.level === 'instance' && usage.node === node ? slot : [],
  )
  const left = new Set(available)
  const chosen = new Set(mustInclude)
  for (const slot of [...claimed, ...free]) {
    if (chosen.size >= size) break
    if (left.has(slot)) chosen.add(slot)
  }
  return [...chosen]
}
