import { GROUP, holderOf, type Instance, parseSlotUsage, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Allocations, NodePods } from '../kubelet/kubelet.js'
import {
  instanceOf,
  type RecordedAllocation,
  type SlotAllocation,
  usageOf,
} from './allocation-ledger.js'

// Which claims of this node are released, and which lost claims are written again.

/** A claim that an Instance records, or should record because a container uses the slot. */
export interface NodeClaim extends SlotAllocation {
  /** The Instance. */
  readonly key: ObjectKey
  readonly usage: string
}

/** A slot that this node has claimed, or whose claim was lost: then it has no `key`. */
export type NodeSlot = SlotAllocation & Partial<NodeClaim> & Partial<RecordedAllocation>

export interface ReclaimInput {
  /** Monotonic time of the question to the kubelet. */
  readonly askedAt: number
  readonly allocated: Allocations
  readonly slots: readonly NodeSlot[]
  readonly pods: NodePods | undefined
  /** Monotonic time at which the last Pod ended or was deleted. */
  readonly podGoneAt: number
  /** By {@link slotId}, the start of the grace periods, from the plan before. */
  readonly unlistedSince: ReadonlyMap<string, number>
  readonly graceMs: number
}

/**
 * `listed`: the kubelet lists the slot for a Pod. `leaving`: as `listed`, but the Pod is gone.
 * `awaited`: a Pod may still get the slot, or get it back. `unused`: no Pod can have the slot.
 * `unknown`: only the grace period can tell.
 */
type SlotUse = 'listed' | 'leaving' | 'awaited' | 'unused' | 'unknown'

/** How long the kubelet may list a Pod that is gone, and how often it is asked, in milliseconds. */
const LEAVING_MS = 60_000
const LEAVING_INTERVAL_MS = 250

/** The claims of a node that Instances record. */
export function claimsOfNode(instances: readonly Instance[], node: NodeName): NodeClaim[] {
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
        return { slot, resourceName: `${GROUP}/${resource}`, id, key: keyOf(instance), usage }
      }),
  )
}

/** The slots of a node: those that it has claimed, and those whose claims were lost. */
export function slotsOfNode(
  claims: readonly NodeClaim[],
  allocations: readonly RecordedAllocation[],
): NodeSlot[] {
  const slots = new Map<string, NodeSlot>(allocations.map((each) => [slotId(each), each]))
  for (const claim of claims) slots.set(slotId(claim), { ...slots.get(slotId(claim)), ...claim })
  return [...slots.values()]
}

/**
 * Decides which slots of this node are free again.
 *
 * The kubelet never reports that a container has ended, but it lists the ids that containers hold.
 * A slot that is not listed may belong to a container that is about to start, to a container that
 * waits for its restart, or to an init container, which is never listed. So no slot of a Pod is
 * free while the Pod has fewer ids than its containers may have. If the Pod has all of them, or if
 * Pods are not watched, the slot is free after a grace period.
 * @returns the slots to release, and the monotonic time at which another slot may become free:
 * infinite if only an event can free one
 */
export function planReclaim(input: ReclaimInput) {
  const { askedAt, graceMs, pods, podGoneAt } = input
  const release: NodeSlot[] = []
  const unlistedSince = new Map<string, number>()
  const rechecks: number[] = []
  for (const slot of input.slots) {
    const use = slotUse(slot, input)
    if (use === 'leaving' && askedAt - podGoneAt < LEAVING_MS)
      rechecks.push(askedAt + LEAVING_INTERVAL_MS)
    if (use === 'listed' || use === 'leaving') continue
    const { claimedAt = 0 } = slot
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

function slotUse({ resourceName, id, users: seen }: NodeSlot, input: ReclaimInput): SlotUse {
  const { allocated, pods } = input
  const listed = allocated.get(resourceName) ?? []
  const holder = listed.find(({ pod, ids }) => ids.has(id) && pods?.hasEnded(pod) !== true)?.pod
  if (pods?.synced !== true) return holder === undefined ? 'unknown' : 'listed'
  const users = pods.users(resourceName)
  if (holder !== undefined) return users.has(holder) ? 'listed' : 'leaving'
  // Before its Pod is seen, the slot may belong to any Pod of the resource.
  const candidates = [...users].filter(([pod]) => seen === undefined || seen.has(pod))
  const isIncomplete = ([pod, most]: readonly [ObjectKey, number]) =>
    new Set(listed.flatMap((each) => (each.pod === pod ? [...each.ids] : []))).size < most
  if (candidates.some(isIncomplete)) return 'awaited'
  return seen !== undefined && candidates.length > 0 ? 'unknown' : 'unused'
}

function slotId({ slot, resourceName, id }: SlotAllocation): string {
  return `${slot} ${resourceName} ${id}`
}

/** A claim that the Instance should record, and does not. */
export interface LostClaim extends NodeClaim {
  /** The claim that has the slot by now; empty if the slot is free. */
  readonly takenBy: string
}

/**
 * The lost claims of running containers: this node writes those of free slots again.
 * @param allocations what containers of this node use
 * @param instances of the whole cluster. Those that the node is not in, or that are being deleted,
 * are left out
 */
export function lostClaims(
  allocations: readonly SlotAllocation[],
  instances: readonly Instance[],
  node: NodeName,
): LostClaim[] {
  const joined = new Map<string, Instance[]>()
  for (const instance of instances) {
    const { metadata, spec } = instance
    if (metadata.deletionTimestamp !== undefined || !spec.nodes.includes(node)) continue
    joined.set(metadata.name, [...(joined.get(metadata.name) ?? []), instance])
  }
  const used = new Set(allocations.map((each) => `${each.slot} ${usageOf(each, node)}`))
  return allocations.flatMap((allocation) => {
    const { slot } = allocation
    const usage = usageOf(allocation, node)
    // A resource name has no namespace: of several Instances with that name, one with the claim is
    // enough.
    const candidates = joined.get(instanceOf(slot)) ?? []
    const [instance] = candidates
    if (instance === undefined || candidates.some(({ spec }) => spec.deviceUsage[slot] === usage))
      return []
    const takenBy = instance.spec.deviceUsage[slot] ?? ''
    // A claim of this node that no container uses is about to be released.
    if (holderOf(takenBy) === node && !used.has(`${slot} ${takenBy}`)) return []
    return { ...allocation, key: keyOf(instance), usage, takenBy }
  })
}
