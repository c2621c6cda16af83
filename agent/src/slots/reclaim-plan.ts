import { GROUP, holderOf, type Instance, parseSlotUsage, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Allocations, NodePods } from '../kubelet/kubelet.js'
import type { SlotAllocation } from './allocation-ledger.js'

/** A slot that this node has claimed, or whose claim was lost. */
export interface NodeSlot extends SlotAllocation {
  /** The claim as the Instance records it; undefined if no Instance does. */
  readonly claim: { readonly key: ObjectKey; readonly usage: string } | undefined
}

export interface ReclaimInput {
  /** Monotonic time of the question to the kubelet. */
  readonly askedAt: number
  readonly allocated: Allocations
  readonly slots: readonly NodeSlot[]
  readonly pods: NodePods | undefined
  /** Monotonic time at which the last Pod ended or was deleted. */
  readonly podGoneAt: number
  /** From the plan before. */
  readonly unlistedSince: UnlistedSince
  readonly graceMs: number
  lastClaimed(slot: SlotName): number | undefined
  /** The Pods whose containers were last seen with the allocation; undefined if none was seen. */
  usersOf(allocation: SlotAllocation): ReadonlySet<ObjectKey> | undefined
}

/**
 * By {@link slotId}: since when the grace period of a slot that the kubelet does not list has run.
 */
export type UnlistedSince = ReadonlyMap<string, number>

interface ReclaimPlan {
  readonly release: readonly NodeSlot[]
  readonly unlistedSince: UnlistedSince
  /** Monotonic time at which a slot may become free; infinite if only an event can free one. */
  readonly recheckAt: number
}

/**
 * `listed`: the kubelet lists the slot for a Pod. `leaving`: as `listed`, but the Pod is gone.
 * `awaited`: a Pod may still get the slot, or get it back. `unused`: no Pod can have the slot.
 * `unknown`: only the grace period can tell.
 */
type SlotUse = 'listed' | 'leaving' | 'awaited' | 'unused' | 'unknown'

/**
 * How long the kubelet may list a Pod that is gone, and how often it is asked meanwhile, in
 * milliseconds.
 */
const LEAVING_MS = 60_000
const LEAVING_INTERVAL_MS = 250

/** The slots that a node holds, by the claims in Instances. */
export function claimedSlots(instances: readonly Instance[], node: NodeName): NodeSlot[] {
  return instances.flatMap((instance) =>
    Object.entries(instance.spec.deviceUsage)
      .filter(([, usage]) => holderOf(usage) === node)
      .map(([name, usage]) => {
        const slot = name as SlotName
        const parsed = parseSlotUsage(usage)
        const [resource, id] =
          parsed.level === 'configuration'
            ? [instance.spec.configurationName, parsed.virtualId]
            : [instance.metadata.name, slot]
        const claim = { key: keyOf(instance), usage }
        return { slot, resourceName: `${GROUP}/${resource}`, id, claim }
      }),
  )
}

/**
 * Decides which slots of this node are free again.
 *
 * The kubelet never reports that a container has ended, but it lists the ids that containers hold.
 * A slot that is not listed may belong to a container that is about to start, to a container that
 * waits for its restart, or to an init container, which is never listed. So no slot of a Pod is
 * free while the Pod has fewer ids than its containers may have. If the Pod has all of them, or if
 * Pods are not watched, the slot is free after a grace period.
 */
export function planReclaim(input: ReclaimInput): ReclaimPlan {
  const { askedAt, graceMs, pods, podGoneAt } = input
  const release: NodeSlot[] = []
  const unlistedSince = new Map<string, number>()
  const rechecks: number[] = []
  for (const slot of input.slots) {
    const use = slotUse(slot, input)
    if (use === 'leaving' && askedAt - podGoneAt < LEAVING_MS)
      rechecks.push(askedAt + LEAVING_INTERVAL_MS)
    if (use === 'listed' || use === 'leaving') continue
    const claimedAt = input.lastClaimed(slot.slot) ?? 0
    const before = input.unlistedSince.get(slotId(slot))
    // A claim gives its container the whole grace period to start, also if this node held the slot
    // already.
    const since = Math.max(before ?? askedAt, claimedAt)
    if (use === 'unknown' || before !== undefined) unlistedSince.set(slotId(slot), since)
    if (use === 'awaited') continue
    // A claim in the millisecond of the question may be younger than the answer.
    const freeAt = use === 'unknown' ? since + graceMs : claimedAt + (pods?.lagMs ?? 0) + 1
    if (freeAt <= askedAt) release.push(slot)
    else rechecks.push(freeAt)
  }
  return { release, unlistedSince, recheckAt: Math.min(...rechecks) }
}

function slotUse(slot: NodeSlot, { allocated, pods, usersOf }: ReclaimInput): SlotUse {
  const { resourceName, id } = slot
  const listed = allocated.get(resourceName) ?? []
  const holder = listed.find(({ pod, ids }) => ids.has(id) && pods?.hasEnded(pod) !== true)?.pod
  if (pods?.synced !== true) return holder === undefined ? 'unknown' : 'listed'
  const users = pods.users(resourceName)
  if (holder !== undefined) return users.has(holder) ? 'listed' : 'leaving'
  const seen = usersOf(slot)
  // Before its Pod is seen, the slot may belong to any Pod of the resource.
  const candidates = [...users].filter(([pod]) => seen === undefined || seen.has(pod))
  const isIncomplete = ([pod, most]: readonly [ObjectKey, number]) =>
    new Set(listed.flatMap((each) => (each.pod === pod ? [...each.ids] : []))).size < most
  if (candidates.some(isIncomplete)) return 'awaited'
  return seen !== undefined && candidates.length > 0 ? 'unknown' : 'unused'
}

export function slotId({ slot, resourceName, id }: SlotAllocation): string {
  return `${slot} ${resourceName} ${id}`
}
