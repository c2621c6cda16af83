import type { InstanceName } from '@akrijs/api'
import { isTurnOver, nextTurn } from '@akrijs/runtime'
import type { ServedInstance } from '../instances/served-instance.js'
import type { InstanceSlots } from '../slots/configuration-slots.js'
import type { SlotTable } from '../slots/slot-table.js'

/**
 * The Instances of one Configuration that this node serves, with their slots as it offers them. The
 * slots of an Instance are made again only after it has changed: the kubelet waits meanwhile.
 */
export class ConfigurationInstances {
  readonly #slotTable: (instance: ServedInstance) => SlotTable
  readonly #served = new Map<InstanceName, ServedInstance>()
  readonly #slots = new Map<InstanceName, InstanceSlots>()
  readonly #stale = new Set<InstanceName>()
  readonly #lost = new Set<InstanceName>()
  readonly #awaited = new Set<InstanceName>()
  #list: readonly InstanceSlots[] | undefined
  #made = 0

  constructor(slotTable: (instance: ServedInstance) => SlotTable) {
    this.#slotTable = slotTable
  }

  get size(): number {
    return this.#served.size
  }

  /** How often the slots of an Instance were made. */
  get made(): number {
    return this.#made
  }

  get(name: InstanceName): ServedInstance | undefined {
    return this.#served.get(name)
  }

  set(instance: ServedInstance): void {
    this.#served.set(instance.name, instance)
    this.#stale.add(instance.name)
    this.#lost.delete(instance.name)
  }

  delete(name: InstanceName): void {
    this.#served.delete(name)
    this.#stale.delete(name)
    this.#awaited.delete(name)
    if (this.#slots.delete(name)) this.#list = undefined
  }

  /** The Instances whose devices are gone while containers use them. */
  get lost(): ReadonlySet<InstanceName> {
    return this.#lost
  }

  /** The Instances that do not exist while their devices are there. After `slots` was read. */
  get awaited(): ReadonlySet<InstanceName> {
    return this.#awaited
  }

  lose(name: InstanceName): void {
    if (!this.#served.has(name)) this.#lost.add(name)
  }

  /** No container uses the lost device any more. */
  forget(name: InstanceName): void {
    this.#lost.delete(name)
  }

  /** To be called after each change of what the slots depend on. */
  changed(name: InstanceName): void {
    if (this.#served.has(name)) this.#stale.add(name)
  }

  /** Makes all slots again, in case that a change was missed. */
  refresh(): void {
    for (const name of this.#served.keys()) this.#stale.add(name)
  }

  /**
   * Makes the slots that have changed, in turns with other work: then `slots` costs little. Slots
   * that cannot be made are left to `slots`.
   */
  async update(): Promise<void> {
    for (const name of this.#stale) {
      try {
        this.#make(name)
      } catch {
        return
      }
      if (isTurnOver()) await nextTurn()
    }
  }

  /** The same objects until they change. */
  get slots(): readonly InstanceSlots[] {
    for (const name of this.#stale) this.#make(name)
    this.#list ??= [...this.#slots.values()]
    return this.#list
  }

  #make(name: InstanceName): void {
    const served = this.#served.get(name)
    const before = this.#slots.get(name)
    const now = served && this.#slotsOf(served)
    // An Instance whose slots cannot be made fails each list.
    this.#stale.delete(name)
    if (served?.healthy && now?.healthy === false) this.#awaited.add(name)
    else this.#awaited.delete(name)
    if (now === undefined || (before !== undefined && isSame(before, now))) return
    this.#slots.set(name, now)
    this.#list = undefined
  }

  #slotsOf(served: ServedInstance): InstanceSlots {
    this.#made++
    const { nodes, slots, beyond, usable } = this.#slotTable(served)
    return { instance: served.name, healthy: usable, nodes, slots, beyond }
  }
}

function isSame(a: InstanceSlots, b: InstanceSlots): boolean {
  return (
    a.slots === b.slots && a.healthy === b.healthy && a.nodes === b.nodes && a.beyond === b.beyond
  )
}
