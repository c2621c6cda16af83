import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { Backoff } from '@akrijs/runtime'
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

/** Between attempts to restore a slot, in milliseconds. */
const BACKOFF = { initialMs: 1000, ceilingMs: 30_000 }
/** The back-off of a slot starts again after this time without an attempt, in milliseconds. */
const RESET_MS = 60_000

/**
 * Back-off of the restores of each slot. It bounds the writes of this node when another program
 * frees the slot again and again, or when the API server is away.
 */
export class RestoreBackoff {
  readonly #slots = new Map<SlotName, { backoff: Backoff; attemptedAt: number; retryAt: number }>()

  /** Monotonic time from which the slot may be restored; 0 before the first attempt. */
  retryAt(slot: SlotName): number {
    return this.#slots.get(slot)?.retryAt ?? 0
  }

  /** The earliest time after `now` at which a slot may be restored; infinite if there is none. */
  nextAfter(now: number): number {
    const times = [...this.#slots.values()].map(({ retryAt }) => retryAt)
    return Math.min(...times.filter((retryAt) => retryAt > now))
  }

  attempt(slot: SlotName, now: number): void {
    for (const [name, { attemptedAt }] of this.#slots)
      if (now - attemptedAt >= RESET_MS) this.#slots.delete(name)
    const backoff = this.#slots.get(slot)?.backoff ?? new Backoff(BACKOFF)
    this.#slots.set(slot, { backoff, attemptedAt: now, retryAt: now + backoff.next() })
  }
}
