import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { entryOf } from './broker-info-plan.js'

/**
 * Entries of free slots are left to the node that had the slot so long, and as long again to each
 * further node.
 */
export const ORPHAN_MS = 5000

/** The slots of entries that have no claim. */
export interface Orphans {
  /**
   * Slots whose entries this node removes: it had the slot, or the time of the other nodes is over.
   */
  readonly abandoned: ReadonlySet<SlotName>
  /** Slots whose entries are left to other nodes, and since when. */
  readonly waiting: ReadonlyMap<SlotName, number>
}

interface OrphanPlan extends Orphans {
  /** When the next slot is abandoned, in milliseconds. */
  readonly recheckInMs: number | undefined
}

export const NO_ORPHANS: Orphans = { abandoned: new Set(), waiting: new Map() }

/**
 * Decides which entries this node removes although it has no claim on the slot: a node may be lost
 * before it removes its own.
 * @param hasDirectory whether a workload of this node still has the slot
 */
export function planOrphans(
  { spec, status }: Pick<Instance, 'spec' | 'status'>,
  { abandoned, waiting }: Orphans,
  {
    node,
    now,
    hasDirectory,
  }: { node: NodeName; now: number; hasDirectory(slot: SlotName): boolean },
): OrphanPlan {
  const slots = new Set(Object.values(status?.brokerInfoSlots ?? {}) as SlotName[])
  const free = [...slots].filter(
    (slot) => (entryOf(spec.deviceUsage, slot) ?? '') === '' && !hasDirectory(slot),
  )
  const index = spec.nodes.indexOf(node)
  // A node that is not in the Instance has no turn.
  const turnMs = index < 0 ? Number.POSITIVE_INFINITY : ORPHAN_MS * (1 + index)
  const nowAbandoned = new Set<SlotName>()
  const nowWaiting = new Map<SlotName, number>()
  for (const slot of free) {
    const since = waiting.get(slot) ?? now
    if (abandoned.has(slot) || now - since >= turnMs) nowAbandoned.add(slot)
    else if (index >= 0 || waiting.has(slot)) nowWaiting.set(slot, since)
  }
  const waitMs = Math.min(...nowWaiting.values()) + turnMs - now
  const recheckInMs = Number.isFinite(waitMs) ? waitMs : undefined
  return { abandoned: nowAbandoned, waiting: nowWaiting, recheckInMs }
}
