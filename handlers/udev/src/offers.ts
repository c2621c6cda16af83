import { isTurnOver, nextTurn } from '@akrijs/sdk'
import type { DeviceGroup } from './device-group.js'
import type { InventoryReader } from './inventory-reader.js'
import type { SysfsDevice } from './sysfs-device.js'

interface Selection {
  readonly ready: readonly DeviceGroup[]
  /** Groups that are not offered yet. */
  readonly unready: readonly DeviceGroup[]
  /** Whether a device or a part of a device is not ready yet. */
  readonly isWaiting: boolean
}

/** Selects the devices of a Configuration that are ready for use. */
export class Offers {
  readonly #reader: InventoryReader
  readonly #grouped: boolean
  /** The topmost devices of the offered groups. */
  #offered: ReadonlySet<SysfsDevice> = new Set()

  constructor(reader: InventoryReader, { grouped }: { readonly grouped: boolean }) {
    this.#reader = reader
    this.#grouped = grouped
  }

  /**
   * A new group is complete when it is offered for the first time. A later part joins its group
   * when udevd processed the part.
   */
  async select(groups: readonly DeviceGroup[]): Promise<Selection> {
    const ready: DeviceGroup[] = []
    const unready: DeviceGroup[] = []
    let isWaiting = false
    for (const group of groups) {
      if (isTurnOver()) await nextTurn()
      const members = group.members.filter((member) => this.#isSettled(member))
      const isWhole = members.length === group.members.length && this.#isComplete(group)
      if (!isWhole) isWaiting = true
      if (isWhole || (members.length > 0 && this.#wasOffered(group)))
        ready.push({ id: group.id, members })
      else unready.push(group)
    }
    this.#offered = new Set(ready.flatMap(({ members: [top] }) => top ?? []))
    return { ready, unready, isWaiting }
  }

  #wasOffered({ members: [top] }: DeviceGroup): boolean {
    return top !== undefined && this.#offered.has(top)
  }

  #isComplete(group: DeviceGroup): boolean {
    return !this.#grouped || this.#reader.isComplete(group)
  }

  #isSettled(device: SysfsDevice): boolean {
    const isSettled = this.#reader.isSettled(device)
    if (!isSettled) this.#reader.expect(device)
    return isSettled
  }
}
