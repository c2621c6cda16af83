import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { instanceOf, type SlotAllocation, usageOf } from './allocation-ledger.js'

/** A claim that an Instance should record, because a container uses the slot. */
export interface LostClaim {
  readonly allocation: SlotAllocation
  readonly key: ObjectKey
  /** The usage that the Instance should record. */
  readonly usage: string
}

/** A lost claim whose slot has another claim by now. */
export interface ClaimConflict extends LostClaim {
  readonly takenBy: string
}

export interface RestorePlan {
  /** Claims to write now: those whose back-off is over. */
  readonly restore: readonly LostClaim[]
  readonly conflicts: readonly ClaimConflict[]
}

interface RestoreInput {
  /** What containers of this node use. */
  readonly allocations: readonly SlotAllocation[]
  /**
   * Of the whole cluster. Instances that the node is not in, or that are being deleted, are left
   * out.
   */
  readonly instances: readonly Instance[]
  readonly node: NodeName
  readonly now: number
  retryAt(slot: SlotName): number
}

/** Decides which claims of running containers this node writes again. */
export function planRestore({
  allocations,
  instances,
  node,
  now,
  retryAt,
}: RestoreInput): RestorePlan {
  const restore: LostClaim[] = []
  const conflicts: ClaimConflict[] = []
  if (allocations.length === 0) return { restore, conflicts }
  const byName = new Map<string, Instance[]>()
  for (const instance of instances) {
    const { metadata, spec } = instance
    if (metadata.deletionTimestamp !== undefined || !spec.nodes.includes(node)) continue
    byName.set(metadata.name, [...(byName.get(metadata.name) ?? []), instance])
  }
  // Conflicts are rare, and each change of an Instance asks for a plan.
  let inUse: ReadonlySet<string> | undefined
  for (const allocation of allocations) {
    const { slot } = allocation
    const usage = usageOf(allocation, node)
    // A resource name has no namespace: of several Instances with that name, one with the claim is
    // enough.
    const candidates = byName.get(instanceOf(slot)) ?? []
    const [instance] = candidates
    if (instance === undefined || candidates.some(({ spec }) => spec.deviceUsage[slot] === usage))
      continue
    const lost = { allocation, key: keyOf(instance), usage }
    const takenBy = instance.spec.deviceUsage[slot] ?? ''
    if (takenBy !== '') {
      // A claim of this node that no container uses is about to be released.
      inUse ??= new Set(allocations.map((each) => `${each.slot} ${usageOf(each, node)}`))
      if (holderOf(takenBy) !== node || inUse.has(`${slot} ${takenBy}`))
        conflicts.push({ ...lost, takenBy })
    } else if (retryAt(slot) <= now) restore.push(lost)
  }
  return { restore, conflicts }
}
