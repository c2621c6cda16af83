import type { SlotName } from '@akrijs/kube'
import type { Clock } from '@akrijs/sdk'

/**
 * What this process does to slots, one thing after the other for each slot: a container that is given a slot anew must not
 * lose it to a release that was decided just before.
 */
export class SlotClaims {
  readonly #clock: Clock
  readonly #claimedAt = new Map<SlotName, number>()
  readonly #work = new Map<SlotName, Promise<unknown>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Remembers that the slot is being given to a container, and claims it. */
  claim<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    return this.#exclusively(slot, () => {
      // Before the claim: whoever looks for slots that nobody uses must not see one without knowing how fresh it is.
      this.#claimedAt.set(slot, this.#clock.now())
      return work()
    })
  }

  /** Releases the slot, unless it was claimed at `since` or later. @returns undefined if it was */
  release<T>(slot: SlotName, since: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.#exclusively(slot, async () => ((this.#claimedAt.get(slot) ?? -1) >= since ? undefined : work()))
  }

  /** Writes again what a container has already: nothing begins with it. */
  restore<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    return this.#exclusively(slot, work)
  }

  /** When this process last claimed the slot, by its clock; undefined if it never did. */
  lastClaimed(slot: SlotName): number | undefined {
    return this.#claimedAt.get(slot)
  }

  /** Forgets slots that are no more. */
  forget(isGone: (slot: SlotName) => boolean): void {
    for (const slot of [...this.#claimedAt.keys()]) if (isGone(slot)) this.#claimedAt.delete(slot)
  }

  #exclusively<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    const result = (this.#work.get(slot) ?? Promise.resolve()).then(work)
    const settled = result.then(
      () => undefined,
      () => undefined,
    )
    this.#work.set(slot, settled)
    void settled.then(() => {
      if (this.#work.get(slot) === settled) this.#work.delete(slot)
    })
    return result
  }
}
