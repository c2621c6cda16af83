import {
  formatSlotUsage,
  GROUP,
  type InstanceName,
  parseSlotUsage,
  type SlotName,
  type SlotUsage,
} from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { NodePods } from '../../ports/kubelet.js'

/** A slot that a container of this node has, and the id of which resource it has it by. */
export interface SlotAllocation {
  readonly slot: SlotName
  readonly resourceName: string
  /** The slot's own name, or what stands for it in the resource of its Configuration. */
  readonly id: string
}

interface Entry {
  readonly given: SlotAllocation
  /** Whose containers have it; undefined where that has not been heard of yet. */
  users: ReadonlySet<ObjectKey> | undefined
}

export interface AllocationLedgerOptions {
  readonly node: NodeName
  /** The Pods of this node; undefined where nobody watches them. */
  readonly pods: NodePods | undefined
}

/**
 * Which slots the containers of this node have, as far as this node has seen it. Who holds a slot is what its Instance says; but
 * an Instance can be deleted or edited while containers run on, and the id of a Configuration does not say which slot it is.
 */
export class AllocationLedger {
  readonly #options: AllocationLedgerOptions
  readonly #byId = new Map<string, Entry>()
  readonly #byInstance = new Map<InstanceName, Map<string, Entry>>()
  readonly #listeners = new Listeners<[slot: SlotName]>()

  constructor(options: AllocationLedgerOptions) {
    this.#options = options
  }

  /** A container is given the slot, and which one it is will be seen. An id stands for one slot at a time. */
  record(given: SlotAllocation): void {
    this.#enter(given).users = undefined
  }

  /** The containers of these Pods have the slot. */
  recordUsers(given: SlotAllocation, users: ReadonlySet<ObjectKey>): void {
    this.#enter(given).users = users
  }

  remove(given: SlotAllocation): void {
    if (!this.has(given)) return
    const instance = instanceOf(given.slot)
    const ofInstance = this.#byInstance.get(instance)
    this.#byId.delete(idOf(given))
    ofInstance?.delete(idOf(given))
    if (ofInstance?.size === 0) this.#byInstance.delete(instance)
    this.#listeners.tell(given.slot)
  }

  has(given: SlotAllocation): boolean {
    return this.#byId.get(idOf(given))?.given.slot === given.slot
  }

  /** The Pods whose containers were last seen to have the slot; undefined where it has not been seen since it was given. */
  usersOf(given: SlotAllocation): ReadonlySet<ObjectKey> | undefined {
    const entry = this.#byId.get(idOf(given))
    return entry?.given.slot === given.slot ? entry.users : undefined
  }

  /** The slot that an id stands for. */
  slotOf(resourceName: string, id: string): SlotName | undefined {
    return this.#byId.get(idOf({ resourceName, id }))?.given.slot
  }

  ofSlot(slot: SlotName): readonly SlotAllocation[] {
    return [...(this.#byInstance.get(instanceOf(slot))?.values() ?? [])].flatMap(({ given }) =>
      given.slot === slot ? given : [],
    )
  }

  list(): readonly SlotAllocation[] {
    return [...this.#byId.values()].map(({ given }) => given)
  }

  /**
   * Those whose Pods are there; and those of which nobody knows the Pod yet.
   * @param instance of which @default all
   */
  inUse(instance?: InstanceName): readonly SlotAllocation[] {
    const entries =
      (instance === undefined ? this.#byId : this.#byInstance.get(instance))?.values() ?? []
    return [...entries].flatMap((entry) => (this.#isUsed(entry) ? entry.given : []))
  }

  /** What an Instance has to say of its slots because of the containers that have them, also of slots beyond its capacity. */
  claimsIn(instance: InstanceName): Record<SlotName, string> {
    return Object.fromEntries(
      this.inUse(instance).map((given) => [given.slot, usageOf(given, this.#options.node)]),
    )
  }

  /** The slots of an Instance as somebody may be given them: one that a container has is not free, whatever the Instance says. */
  overlay(
    instance: InstanceName,
    slots: ReadonlyMap<SlotName, SlotUsage>,
  ): ReadonlyMap<SlotName, SlotUsage> {
    const claims = new Map(Object.entries(this.claimsIn(instance)))
    if (claims.size === 0) return slots
    return new Map(
      [...slots].map(([slot, usage]) => [
        slot,
        usage.level === 'free' ? parseSlotUsage(claims.get(slot)) : usage,
      ]),
    )
  }

  /** Calls back after a slot has come, gone or got another id. */
  onChange(listener: (slot: SlotName) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #enter({ slot, resourceName, id }: SlotAllocation): Entry {
    const before = this.#byId.get(idOf({ resourceName, id }))
    if (before?.given.slot === slot) return before
    if (before !== undefined) this.remove(before.given)
    const entry: Entry = { given: { slot, resourceName, id }, users: undefined }
    this.#byId.set(idOf(entry.given), entry)
    const ofInstance = this.#byInstance.get(instanceOf(slot)) ?? new Map<string, Entry>()
    this.#byInstance.set(instanceOf(slot), ofInstance.set(idOf(entry.given), entry))
    this.#listeners.tell(slot)
    return entry
  }

  #isUsed({ given, users }: Entry): boolean {
    if (users === undefined) return true
    return [...users].some((pod) => isPodActive(this.#options.pods, pod, given.resourceName))
  }
}

/** Whether a Pod that is said to have something of the resource is there and has not ended, as far as is known. */
export function isPodActive(
  pods: NodePods | undefined,
  pod: ObjectKey,
  resourceName: string,
): boolean {
  if (pods === undefined) return true
  // Before all Pods have been seen it is what the kubelet says.
  return !pods.hasEnded(pod) && (!pods.synced || pods.users(resourceName).has(pod))
}

/** What the Instance has to say of a slot that a container of this node has. */
export function usageOf({ slot, resourceName, id }: SlotAllocation, node: NodeName): string {
  const own = resourceName === `${GROUP}/${instanceOf(slot)}`
  return formatSlotUsage(
    own ? { level: 'instance', node } : { level: 'configuration', virtualId: id, node },
  )
}

export function instanceOf(slot: SlotName): InstanceName {
  return slot.slice(0, slot.lastIndexOf('-')) as InstanceName
}

function idOf({ resourceName, id }: Pick<SlotAllocation, 'resourceName' | 'id'>): string {
  return `${resourceName} ${id}`
}
