import {
  formatSlotUsage,
  GROUP,
  hasLongDigest,
  type InstanceName,
  possibleOwner,
  type SlotName,
  slotIndex,
} from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { Allocations, NodePods } from '../kubelet/kubelet.js'

/** A slot that a container of this node uses, and the id by which the kubelet gave the slot. */
export interface SlotAllocation {
  readonly slot: SlotName
  readonly resourceName: string
  /** The slot's name, or the virtual id in the resource of a Configuration. */
  readonly id: string
}

/** An allocation with what this node knows of its container. */
export interface RecordedAllocation extends SlotAllocation {
  /** The Pods whose containers use the slot; undefined until the kubelet lists them. */
  readonly users: ReadonlySet<ObjectKey> | undefined
  /** Monotonic time of the claim by this agent, until the kubelet lists the allocation; then 0. */
  readonly claimedAt: number
}

/** An id that a container uses, and whose slot no record tells. */
export type UnresolvedId = Omit<SlotAllocation, 'slot'>

interface ListedOptions {
  /** Monotonic time of the question. */
  readonly askedAt: number
  /** What Instances record for this node. */
  readonly claimed: readonly SlotAllocation[]
  /** The names of all Configurations. */
  readonly configurations: ReadonlySet<string>
}

interface AllocationLedgerOptions {
  readonly node: NodeName
  /** The Pods of this node; undefined if Pods are not watched. */
  readonly pods: NodePods | undefined
}

/**
 * The allocations of this node's containers. The truth about claims is the Instance. But an
 * Instance can be deleted or edited while containers run, and the virtual id of a Configuration
 * does not tell the slot.
 */
export class AllocationLedger {
  readonly #options: AllocationLedgerOptions
  readonly #byId = new Map<string, RecordedAllocation>()
  readonly #byInstance = new Map<InstanceName, Map<string, RecordedAllocation>>()
  /** The Instances with a long name that have allocations. */
  readonly longInstances = new Set<InstanceName>()
  readonly #listeners = new Listeners<[slot: SlotName]>()

  constructor(options: AllocationLedgerOptions) {
    this.#options = options
  }

  /**
   * Records an allocation. An id stands for one slot at a time.
   * @param claimedAt if the slot was claimed for this allocation, which a restore does not
   */
  record(allocation: SlotAllocation, users?: ReadonlySet<ObjectKey>, claimedAt = 0): void {
    const { slot, resourceName, id } = allocation
    const key = idOf(allocation)
    const before = this.#byId.get(key)
    const isKnown = before?.slot === slot
    if (before !== undefined && !isKnown) this.remove(before)
    const recorded = { slot, resourceName, id, users, claimedAt }
    const instance = instanceOf(slot)
    const ofInstance = this.#byInstance.get(instance) ?? new Map<string, RecordedAllocation>()
    this.#byId.set(key, recorded)
    this.#byInstance.set(instance, ofInstance.set(key, recorded))
    if (hasLongDigest(instance)) this.longInstances.add(instance)
    if (!isKnown) this.#listeners.tell(slot)
  }

  /**
   * Takes over the ids that the kubelet lists for active Pods. The container's own annotations tell
   * the slot first, then the claims in Instances, then what was known before. An id that was
   * allocated after the question can be that of an earlier container in the answer.
   * @returns the ids whose slots no record tells
   */
  follow(allocated: Allocations, listed: ListedOptions): readonly UnresolvedId[] {
    const { askedAt, claimed, configurations } = listed
    const claimedAs = new Map<string, SlotName>()
    for (const each of claimed) {
      // Two slots with one id are an error of another writer: the slot of before counts.
      if (!claimedAs.has(idOf(each)) || this.has(each)) claimedAs.set(idOf(each), each.slot)
    }
    const resolved = new Map<string, { allocation: SlotAllocation; users: Set<ObjectKey> }>()
    const unresolved = new Map<string, UnresolvedId>()
    for (const [resourceName, containers] of allocated) {
      const name = resourceName.slice(GROUP.length + 1) as InstanceName
      if (resourceName !== `${GROUP}/${name}`) continue
      // The ids of an Instance's resource are slots. Another system may give ids of that form to a
      // Configuration's resource.
      const isInstance = possibleOwner(name) !== undefined && !configurations.has(name)
      for (const { pod, ids, slots } of containers) {
        if (!isPodActive(this.#options.pods, pod, resourceName)) continue
        for (const id of ids) {
          const key = idOf({ resourceName, id })
          const before = this.#byId.get(key)
          const isSlot = isInstance && slotIndex(name, id) !== undefined
          const known = slots?.get(id) ?? claimedAs.get(key) ?? before?.slot
          const slot = known ?? (isSlot ? (id as SlotName) : undefined)
          if (slot === undefined) unresolved.set(key, { resourceName, id })
          else if (before === undefined || before.claimedAt < askedAt) {
            const users = resolved.get(key)?.users ?? new Set<ObjectKey>()
            const allocation = { slot, resourceName, id }
            resolved.set(key, { allocation, users: users.add(pod) })
          }
        }
      }
    }
    for (const { allocation, users } of resolved.values()) this.record(allocation, users)
    return [...unresolved.values()]
  }

  remove(allocation: SlotAllocation): void {
    if (!this.has(allocation)) return
    const key = idOf(allocation)
    const instance = instanceOf(allocation.slot)
    const ofInstance = this.#byInstance.get(instance)
    this.#byId.delete(key)
    ofInstance?.delete(key)
    if (ofInstance?.size === 0) {
      this.#byInstance.delete(instance)
      this.longInstances.delete(instance)
    }
    this.#listeners.tell(allocation.slot)
  }

  has(allocation: SlotAllocation): boolean {
    return this.#byId.get(idOf(allocation))?.slot === allocation.slot
  }

  ofSlot(slot: SlotName): readonly RecordedAllocation[] {
    return this.list(instanceOf(slot)).filter((each) => each.slot === slot)
  }

  /** @param instance @default all Instances */
  list(instance?: InstanceName): readonly RecordedAllocation[] {
    const allocations = instance === undefined ? this.#byId : this.#byInstance.get(instance)
    return [...(allocations?.values() ?? [])]
  }

  /**
   * The allocations whose Pods are active or not known yet.
   * @param instance @default all Instances
   */
  inUse(instance?: InstanceName): readonly RecordedAllocation[] {
    const { pods } = this.#options
    return this.list(instance).filter(
      ({ users, resourceName }) =>
        !users || [...users].some((pod) => isPodActive(pods, pod, resourceName)),
    )
  }

  /** The claims that the Instance should record, also those of slots beyond its capacity. */
  claimsIn(instance: InstanceName): Record<SlotName, string> {
    return Object.fromEntries(
      this.inUse(instance).map((each) => [each.slot, usageOf(each, this.#options.node)]),
    )
  }

  /** Calls back after an allocation of the slot was added, removed or moved to another id. */
  onChange(listener: (slot: SlotName) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}

/** Whether the Pod still uses the resource, by all that the node knows. */
function isPodActive(pods: NodePods | undefined, pod: ObjectKey, resource: string): boolean {
  if (pods === undefined) return true
  // Until all Pods have been seen, the kubelet's list counts.
  return !pods.hasEnded(pod) && (!pods.synced || pods.users(resource).has(pod))
}

/** The usage that the Instance should record for an allocation. */
export function usageOf({ slot, resourceName, id }: SlotAllocation, node: NodeName): string {
  const isInstance = resourceName === `${GROUP}/${instanceOf(slot)}`
  return formatSlotUsage(
    isInstance ? { level: 'instance', node } : { level: 'configuration', virtualId: id, node },
  )
}

export function instanceOf(slot: SlotName): InstanceName {
  return slot.slice(0, slot.lastIndexOf('-')) as InstanceName
}

function idOf({ resourceName, id }: UnresolvedId): string {
  return `${resourceName} ${id}`
}
