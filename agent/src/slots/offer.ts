import type { NodeName, SlotName, SlotUsage } from '@akrijs/kube'

/**
 * Which slots of an Instance this node may use through the Instance's own resource. What is advertised, what is preferred
 * and what is allocated all ask this one function, so that nothing is offered that would be refused.
 * @param heldBeyond how many slots are still held beyond the capacity, since it was lowered: as many free ones have to wait
 * @returns for each slot whether it is offered: it is free, or this node holds it through the Instance
 */
export function offeredSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  { node, healthy, heldBeyond = 0 }: { readonly node: NodeName; readonly healthy: boolean; readonly heldBeyond?: number },
): Map<SlotName, boolean> {
  const free = [...slots].filter(([, usage]) => usage.level === 'free').map(([slot]) => slot)
  const spare = new Set(free.slice(0, Math.max(0, free.length - heldBeyond)))
  return new Map(
    [...slots].map(([slot, usage]) => [
      slot,
      healthy && (spare.has(slot) || (usage.level === 'instance' && usage.node === node)),
    ]),
  )
}
