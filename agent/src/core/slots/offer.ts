import type { SlotName, SlotUsage } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'

/**
 * The slots of an Instance that can be given out: those that are free, less as many as are held beyond the capacity since it
 * was lowered, because these have to end first.
 */
export function spareSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  heldOverCapacity: number,
): SlotName[] {
  const free = [...slots].filter(([, usage]) => usage.level === 'free').map(([slot]) => slot)
  return free.slice(0, Math.max(0, free.length - heldOverCapacity))
}

/**
 * Which slots of an Instance this node may use through the Instance's own resource. What is advertised, what is preferred
 * and what is allocated all ask this one function, so that nothing is offered that would be refused.
 * @returns for each slot whether it is offered: it is free, or this node holds it through the Instance
 */
export function offeredSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  {
    node,
    healthy,
    heldOverCapacity = 0,
  }: { readonly node: NodeName; readonly healthy: boolean; readonly heldOverCapacity?: number },
): Map<SlotName, boolean> {
  const spare = new Set(spareSlots(slots, heldOverCapacity))
  return new Map(
    [...slots].map(([slot, usage]) => [
      slot,
      healthy && (spare.has(slot) || (usage.level === 'instance' && usage.node === node)),
    ]),
  )
}

/**
 * The slots of an Instance in the order in which a node takes them, at both levels. The nodes begin at different slots, and two by
 * two they go towards each other: those that choose in the same moment do not know of each other, and who is slower has to choose
 * again, or is refused.
 * @param nodes all nodes of the Instance, in the same order for each of them
 */
export function slotsInClaimOrder(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  { node, nodes }: { readonly node: NodeName; readonly nodes: readonly NodeName[] },
): [SlotName, SlotUsage][] {
  const beginningAt = (index: number) => [...[...slots].slice(index), ...[...slots].slice(0, index)]
  const position = Math.max(0, nodes.indexOf(node))
  const share = (end: number) => (end * slots.size) / Math.max(1, nodes.length)
  return position % 2 === 0
    ? beginningAt(Math.floor(share(position)))
    : beginningAt(Math.ceil(share(position + 1))).toReversed()
}

/**
 * Which of the slots that the kubelet has left it should take: what it must take, then those that this node holds and nobody uses
 * any more, then free ones, as {@link slotsInClaimOrder} has them.
 */
export function preferredSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  {
    node,
    nodes,
    available,
    mustInclude,
    size,
  }: {
    readonly node: NodeName
    readonly nodes: readonly NodeName[]
    readonly available: readonly string[]
    readonly mustInclude: readonly string[]
    readonly size: number
  },
): string[] {
  const inTurn = slotsInClaimOrder(slots, { node, nodes })
  const own = inTurn.filter(([, usage]) => usage.level === 'instance' && usage.node === node)
  const free = inTurn.filter(([, usage]) => usage.level === 'free')
  const left = new Set(available)
  const chosen = new Set(mustInclude)
  for (const [slot] of [...own, ...free]) {
    if (chosen.size >= size) break
    if (left.has(slot)) chosen.add(slot)
  }
  return [...chosen]
}
