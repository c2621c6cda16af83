import { formatSlotUsage, type InstanceName, type NodeName, type SlotName, slotName } from '@akrijs/kube'
import { Listeners } from '../listeners.js'

/** A slot that a container of this node has, and the id of which resource it has it by. */
export interface GivenSlot {
  readonly slot: SlotName
  readonly resourceName: string
  /** The slot's own name, or what stands for it in the resource of its Configuration. */
  readonly id: string
}

/**
 * Which slots the containers of this node have, as far as this node has seen it. Who holds a slot is what its Instance says; but
 * an Instance can be deleted or edited while containers run on, and the id of a Configuration does not say which slot it is.
 */
export class GivenSlots {
  readonly #byId = new Map<string, GivenSlot>()
  /** A slot has one entry; more only where somebody has given it away twice. */
  readonly #bySlot = new Map<SlotName, readonly GivenSlot[]>()
  readonly #listeners = new Listeners<[slot: SlotName]>()

  /** Remembers it. An id stands for one slot at a time: what it stood for before is forgotten. */
  note(given: GivenSlot): void {
    const before = this.#byId.get(idOf(given))
    if (before?.slot === given.slot) return
    if (before !== undefined) this.forget(before)
    const { slot, resourceName, id } = given
    const entry = { slot, resourceName, id }
    this.#byId.set(idOf(entry), entry)
    this.#bySlot.set(slot, [...this.at(slot), entry])
    this.#listeners.tell(slot)
  }

  forget(given: GivenSlot): void {
    if (this.#byId.get(idOf(given))?.slot !== given.slot) return
    this.#byId.delete(idOf(given))
    const others = this.at(given.slot).filter((one) => idOf(one) !== idOf(given))
    if (others.length > 0) this.#bySlot.set(given.slot, others)
    else this.#bySlot.delete(given.slot)
    this.#listeners.tell(given.slot)
  }

  has(given: GivenSlot): boolean {
    return this.#byId.get(idOf(given))?.slot === given.slot
  }

  at(slot: SlotName): readonly GivenSlot[] {
    return this.#bySlot.get(slot) ?? []
  }

  /** Those of an Instance that are within its capacity. */
  of(instance: InstanceName, capacity: number): readonly GivenSlot[] {
    if (this.#byId.size === 0) return []
    return Array.from({ length: capacity }, (_, index) => this.at(slotName(instance, index))).flat()
  }

  /** The slot that an id stands for. */
  slotOf(resourceName: string, id: string): SlotName | undefined {
    return this.#byId.get(idOf({ resourceName, id }))?.slot
  }

  list(): readonly GivenSlot[] {
    return [...this.#byId.values()]
  }

  /** Calls back after something has changed about a slot. */
  onChange(listener: (slot: SlotName) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}

/** What the Instance has to say of a slot that a container of this node has. */
export function usageOf({ slot, id }: GivenSlot, node: NodeName): string {
  return formatSlotUsage(id === slot ? { level: 'instance', node } : { level: 'configuration', virtualId: id, node })
}

function idOf({ resourceName, id }: Pick<GivenSlot, 'resourceName' | 'id'>): string {
  return `${resourceName} ${id}`
}
