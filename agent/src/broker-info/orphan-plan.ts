import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { entryOf } from '../core/broker-info/broker-info-plan.js'

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
  const isAbandoned = new Set(free.filter((slot) => abandoned.has(slot)))
  const others = free.filter((slot) => !abandoned.has(slot))
  const index = spec.nodes.indexOf(node)
  if (index < 0) {
    const kept = new Map([...waiting].filter(([slot]) => others.includes(slot)))
    return { abandoned: isAbandoned, waiting: kept, recheckInMs: undefined }
  }
  const stillWaiting = new Map<SlotName, number>()
  const waits: number[] = []
  for (const slot of others) {
    const since = waiting.get(slot) ?? now
    const waitMs = since + ORPHAN_MS * (1 + index) - now
    if (waitMs <= 0) isAbandoned.add(slot)
    else {
      stillWaiting.set(slot, since)
      waits.push(waitMs)
    }
  }
  const recheckInMs = waits.length === 0 ? undefined : Math.min(...waits)
  return { abandoned: isAbandoned, waiting: stillWaiting, recheckInMs }
}
