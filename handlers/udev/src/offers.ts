import { inTurns } from '@akrijs/sdk'
import type { DeviceGroup } from './device-group.js'
import type { InventoryReader } from './inventory-reader.js'
import type { SysfsDevice } from './sysfs-device.js'

/** A group and what of it is ready for use. */
interface Candidate {
  readonly group: DeviceGroup
  /** The members that udevd processed. */
  readonly members: readonly SysfsDevice[]
  /** Whether all members are ready, and no other member is expected. */
  readonly isWhole: boolean
  readonly isReady: boolean
}

/** Selects the devices of a Configuration that are ready for use. */
export class Offers {
  readonly #reader: InventoryReader
  readonly #grouped: boolean
  #candidates: readonly Candidate[] = []
  /** The topmost devices of the offered groups. */
  #offered: ReadonlySet<SysfsDevice> = new Set()

  constructor(reader: InventoryReader, { grouped }: { readonly grouped: boolean }) {
    this.#reader = reader
    this.#grouped = grouped
  }

  /** Whether a device or a part of a device is not ready yet. */
  get isWaiting(): boolean {
    return this.#candidates.some(({ isWhole }) => !isWhole)
  }

  /** The groups to offer, with the members that are ready. */
  get ready(): readonly DeviceGroup[] {
    return this.#candidates.flatMap(({ group: { id }, members, isReady }) =>
      isReady ? { id, members } : [],
    )
  }

  /** Groups that are not offered yet. */
  get unready(): readonly DeviceGroup[] {
    return this.#candidates.flatMap(({ group, isReady }) => (isReady ? [] : group))
  }

  /**
   * Selects from groups. A new group is complete when it is offered for the first time. A later
   * part joins its group when udevd processed the part.
   * @param groups @default the same groups as before
   * @returns whether the selection differs, if the groups are the same
   */
  async select(groups = this.#candidates.map(({ group }) => group)): Promise<boolean> {
    const before = this.#candidates
    const candidates: Candidate[] = []
    for await (const group of inTurns(groups)) {
      candidates.push(this.#candidateOf(group))
    }
    this.#candidates = candidates
    this.#offered = new Set(this.ready.flatMap(({ members: [top] }) => top ?? []))
    // A member that is ready stays ready.
    const sizeOf = ({ isReady, members }: Candidate) => (isReady ? members.length : 0)
    return candidates.some((now, index) => sizeOf(now) !== sizeOf(before[index] ?? now))
  }

  #candidateOf(group: DeviceGroup): Candidate {
    const members = group.members.filter((member) => this.#isSettled(member))
    const isWhole = members.length === group.members.length && this.#isComplete(group)
    const isReady = isWhole || (members.length > 0 && this.#wasOffered(group))
    return { group, members, isWhole, isReady }
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
