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
  #candidates: Candidate[] = []
  /** The indices of the candidates that are not whole: only these can change by themselves. */
  #waiting: readonly number[] = []
  /** The topmost devices of the offered groups. */
  #offered: ReadonlySet<SysfsDevice> = new Set()

  constructor(reader: InventoryReader, { grouped }: { readonly grouped: boolean }) {
    this.#reader = reader
    this.#grouped = grouped
  }

  /** Whether a device or a part of a device is not ready yet. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0
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
   * Selects from other groups. A new group is complete when it is offered for the first time. A
   * later part joins its group when udevd processed the part.
   */
  async select(groups: readonly DeviceGroup[]): Promise<void> {
    const candidates: Candidate[] = []
    for await (const group of inTurns(groups)) {
      candidates.push(this.#candidateOf(group))
    }
    this.#candidates = candidates
    this.#waiting = candidates.flatMap(({ isWhole }, index) => (isWhole ? [] : index))
    this.#remember()
  }

  /** Selects again from the same groups. @returns whether the selection differs */
  async selectAgain(): Promise<boolean> {
    let differs = false
    const waiting: number[] = []
    for await (const index of inTurns(this.#waiting)) {
      const before = this.#candidates[index]
      if (before === undefined) continue
      const now = this.#candidateOf(before.group)
      this.#candidates[index] = now
      if (!now.isWhole) waiting.push(index)
      // A member that is ready stays ready.
      const isMore = now.members.length !== before.members.length
      if (now.isReady !== before.isReady || (now.isReady && isMore)) differs = true
    }
    this.#waiting = waiting
    if (differs) this.#remember()
    return differs
  }

  #candidateOf(group: DeviceGroup): Candidate {
    const members = group.members.filter((member) => this.#isSettled(member))
    const isWhole = members.length === group.members.length && this.#isComplete(group)
    const isReady = isWhole || (members.length > 0 && this.#wasOffered(group))
    return { group, members, isWhole, isReady }
  }

  #remember(): void {
    this.#offered = new Set(this.ready.flatMap(({ members: [top] }) => top ?? []))
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
