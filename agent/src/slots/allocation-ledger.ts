import {
  formatSlotUsage,
  GROUP,
  hasLongDigest,
  type InstanceName,
  type SlotName,
} from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { NodePods } from '../kubelet/kubelet.js'

/**
 * A slot that a container of this node uses, and the device id by which the kubelet gave the slot.
 */
export interface SlotAllocation {
  readonly slot: SlotName
  readonly resourceName: string
  /** The slot's name, or the virtual id in the resource of a Configuration. */
  readonly id: string
}

interface Entry {
  readonly allocation: SlotAllocation
  /** The Pods of the containers; undefined until the kubelet lists them. */
  users: ReadonlySet<ObjectKey> | undefined
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
  readonly #byId = new Map<string, Entry>()
  readonly #byInstance = new Map<InstanceName, Map<string, Entry>>()
  /** The Instances with a long name that have allocations. */
  readonly longInstances = new Set<InstanceName>()
  readonly #listeners = new Listeners<[slot: SlotName]>()

  constructor(options: AllocationLedgerOptions) {
    this.#options = options
  }

  /** Records a new allocation. An id stands for one slot at a time. */
  record(allocation: SlotAllocation): void {
    this.#enter(allocation).users = undefined
  }

  /** Records the Pods whose containers use the slot. */
  recordUsers(allocation: SlotAllocation, users: ReadonlySet<ObjectKey>): void {
    this.#enter(allocation).users = users
  }

  remove(allocation: SlotAllocation): void {
    if (!this.has(allocation)) return
    const id = idOf(allocation)
    const instance = instanceOf(allocation.slot)
    const ofInstance = this.#byInstance.get(instance)
    this.#byId.delete(id)
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
    return this.has(allocation) ? this.#byId.get(idOf(allocation))?.users : undefined
  }

  /** The slot that an id stands for. */
  slotOf(resourceName: string, id: string): SlotName | undefined {
    return this.#byId.get(idOf({ resourceName, id }))?.allocation.slot
  }

  ofSlot(slot: SlotName): readonly SlotAllocation[] {
    const entries = [...(this.#byInstance.get(instanceOf(slot))?.values() ?? [])]
    return entries.map(({ allocation }) => allocation).filter((each) => each.slot === slot)
  }

  list(): readonly SlotAllocation[] {
    return Array.from(this.#byId.values(), ({ allocation }) => allocation)
  }

  /**
   * The allocations whose Pods are active or not known yet.
   * @param instance @default all Instances
   */
  inUse(instance?: InstanceName): readonly SlotAllocation[] {
    const entries = instance === undefined ? this.#byId : this.#byInstance.get(instance)
    return [...(entries?.values() ?? [])].flatMap(({ allocation, users }) => {
      const isActive = (pod: ObjectKey) =>
        isPodActive(this.#options.pods, pod, allocation.resourceName)
      return users === undefined || [...users].some(isActive) ? allocation : []
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

  #enter({ slot, resourceName, id }: SlotAllocation): Entry {
    const key = idOf({ resourceName, id })
    const before = this.#byId.get(key)
    if (before?.allocation.slot === slot) return before
    if (before !== undefined) this.remove(before.allocation)
    const entry: Entry = { allocation: { slot, resourceName, id }, users: undefined }
    const instance = instanceOf(slot)
    const ofInstance = this.#byInstance.get(instance) ?? new Map<string, Entry>()
    this.#byId.set(key, entry)
    this.#byInstance.set(instance, ofInstance.set(key, entry))
    if (hasLongDigest(instance)) this.longInstances.add(instance)
    this.#listeners.tell(slot)
    return entry
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

function idOf({ resourceName, id }: Omit<SlotAllocation, 'slot'>): string {
  return `${resourceName} ${id}`
}
