import type { NodeName, SlotName } from '@akrijs/kube'
import type { SlotUsage } from './slot-usage.js'

/**
 * Which slots of an Instance this node may use through the Instance's own resource. What is advertised, what is preferred
 * and what is allocated all ask this one function, so that nothing is offered that would be refused.
 * @returns for each slot whether it is offered: it is free, or this node holds it through the Instance
 */
export function offeredSlots(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  { node, healthy }: { readonly node: NodeName; readonly healthy: boolean },
): Map<SlotName, boolean> {
  return new Map(
    [...slots].map(([slot, usage]) => [
      slot,
      healthy && (usage.level === 'free' || (usage.level === 'instance' && usage.node === node)),
    ]),
  )
}
