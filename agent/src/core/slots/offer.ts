import type { SlotName, SlotUsage } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { InstanceSlots } from './instance-slots.js'

/** The kubelet asks which ids of a resource it should give to a container. */
export interface PreferenceRequest {
  readonly available: readonly string[]
  readonly mustInclude: readonly string[]
  readonly size: number
}

/**
 * The slots of an Instance that can be claimed. After the capacity was lowered, as many free slots
 * wait as claims are beyond the capacity.
 */
export function spareSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  heldOverCapacity: number,
): SlotName[] {
  const free: SlotName[] = []
  slots.forEach((usage, slot) => {
    if (usage.level === 'free') free.push(slot)
  })
  return heldOverCapacity === 0 ? free : free.slice(0, Math.max(0, free.length - heldOverCapacity))
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
 * The slots of an Instance in the order in which the node claims them, at both levels. Nodes begin
 * at different slots, and each pair of nodes counts towards each other. So nodes that choose at the
 * same moment rarely choose the same slot.
 * @param nodes all nodes of the Instance, in the same order on each node
 */
export function slotsInClaimOrder(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  { node, nodes }: { readonly node: NodeName; readonly nodes: readonly NodeName[] },
): [SlotName, SlotUsage][] {
  const beginningAt = (index: number) => [...[...slots].slice(index), ...[...slots].slice(0, index)]
  // A node that has not joined yet will be the last one.
  const all = nodes.includes(node) ? nodes : [...nodes, node]
  const position = all.indexOf(node)
  const share = (end: number) => (end * slots.size) / all.length
  return position % 2 === 0
    ? beginningAt(Math.floor(share(position)))
    : beginningAt(Math.ceil(share(position + 1))).toReversed()
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
