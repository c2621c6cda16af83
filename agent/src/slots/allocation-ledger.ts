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

/** An id that a container uses, and whose slot no record tells. */
export type UnresolvedId = Omit<SlotAllocation, 'slot'>

interface ListedOptions {
  /** What Instances record for this node. */
  readonly claimed: readonly SlotAllocation[]
  /** The names of all Configurations. */
  readonly configurations: ReadonlySet<string>
  /** Whether the answer of the kubelet does not tell the users of the slot. */
  isYounger(slot: SlotName): boolean
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
  readonly #byId = new Map<string, SlotAllocation>()
  readonly #byInstance = new Map<InstanceName, Map<string, SlotAllocation>>()
  /** By id, the Pods of the containers, once the kubelet has listed them. */
  readonly #users = new Map<string, ReadonlySet<ObjectKey>>()
  /** The Instances with a long name that have allocations. */
  readonly longInstances = new Set<InstanceName>()
  readonly #listeners = new Listeners<[slot: SlotName]>()

  constructor(options: AllocationLedgerOptions) {
    this.#options = options
  }

  /**
   * Records a new allocation. An id stands for one slot at a time.
   * @param users the Pods whose containers use the slot; undefined until the kubelet lists them
   */
  record({ slot, resourceName, id }: SlotAllocation, users?: ReadonlySet<ObjectKey>): void {
    const key = idOf({ resourceName, id })
    const before = this.#byId.get(key)
    if (before !== undefined && before.slot !== slot) this.remove(before)
    if (users === undefined) this.#users.delete(key)
    else this.#users.set(key, users)
    if (before?.slot === slot) return
    const allocation = { slot, resourceName, id }
    const instance = instanceOf(slot)
    const ofInstance = this.#byInstance.get(instance) ?? new Map<string, SlotAllocation>()
    this.#byId.set(key, allocation)
    this.#byInstance.set(instance, ofInstance.set(key, allocation))
    if (hasLongDigest(instance)) this.longInstances.add(instance)
    this.#listeners.tell(slot)
  }

  /**
   * Takes over the ids that the kubelet lists for active Pods. The container's own annotations tell
   * the slot first, then the claims in Instances, then what was known before.
   * @returns the ids whose slots no record tells
   */
  follow(allocated: Allocations, listed: ListedOptions): readonly UnresolvedId[] {
    const { claimed, configurations, isYounger } = listed
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
          const isSlot = isInstance && slotIndex(name, id) !== undefined
          const known = slots?.get(id) ?? claimedAs.get(key) ?? this.slotOf(resourceName, id)
          const slot = known ?? (isSlot ? (id as SlotName) : undefined)
          if (slot === undefined) unresolved.set(key, { resourceName, id })
          else {
            const users = resolved.get(key)?.users ?? new Set<ObjectKey>()
            const allocation = { slot, resourceName, id }
            resolved.set(key, { allocation, users: users.add(pod) })
          }
        }
      }
    }
    for (const { allocation, users } of resolved.values())
      if (!isYounger(allocation.slot)) this.record(allocation, users)
    return [...unresolved.values()]
  }

  remove(allocation: SlotAllocation): void {
    if (!this.has(allocation)) return
    const id = idOf(allocation)
    const instance = instanceOf(allocation.slot)
    const ofInstance = this.#byInstance.get(instance)
    this.#byId.delete(id)
    this.#users.delete(id)
    ofInstance?.delete(id)
    if (ofInstance?.size === 0) {
      this.#byInstance.delete(instance)
      this.longInstances.delete(instance)
    }
    this.#listeners.tell(allocation.slot)
  }

  has(allocation: SlotAllocation): boolean {
    return this.slotOf(allocation.resourceName, allocation.id) === allocation.slot
  }

  /** The Pods of the allocation; undefined until the kubelet lists them. */
  usersOf(allocation: SlotAllocation): ReadonlySet<ObjectKey> | undefined {
    return this.has(allocation) ? this.#users.get(idOf(allocation)) : undefined
  }

  slotOf(resourceName: string, id: string): SlotName | undefined {
    return this.#byId.get(idOf({ resourceName, id }))?.slot
  }

  ofSlot(slot: SlotName): readonly SlotAllocation[] {
    return this.list(instanceOf(slot)).filter((each) => each.slot === slot)
  }

  /** @param instance @default all Instances */
  list(instance?: InstanceName): readonly SlotAllocation[] {
    const allocations = instance === undefined ? this.#byId : this.#byInstance.get(instance)
    return [...(allocations?.values() ?? [])]
  }

  /**
   * The allocations whose Pods are active or not known yet.
   * @param instance @default all Instances
   */
  inUse(instance?: InstanceName): readonly SlotAllocation[] {
    const { pods } = this.#options
    return this.list(instance).filter((each) => {
      const users = this.#users.get(idOf(each))
      return !users || [...users].some((pod) => isPodActive(pods, pod, each.resourceName))
    })
  }

  /** The ids of a resource by which containers use slots of the Instance. */
  idsInUse(instance: InstanceName, resource: string): readonly string[] {
    return this.inUse(instance).flatMap(({ resourceName, id }) =>
      resourceName === resource ? id : [],
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
export function isPodActive(pods: NodePods | undefined, pod: ObjectKey, resource: string): boolean {
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
