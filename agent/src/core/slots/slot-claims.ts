import type { SlotName } from '@akrijs/api'
import type { Clock } from '@akrijs/runtime'

/** The claims of one request of the kubelet. */
export interface RequestClaims {
  /** Remembers that the slot is being given to a container, and claims it. */
  claim<T>(slot: SlotName, work: () => Promise<T>): Promise<T>
}

/**
 * What this process does to slots, one thing after the other for each slot: a container that is given a slot anew must not
 * lose it to a release that was decided just before.
 */
export class SlotClaims {
  readonly #clock: Clock
  readonly #claimedAt = new Map<SlotName, number>()
  /** Of requests that have no answer yet: how many of them claim the slot. */
  readonly #underWay = new Map<SlotName, number>()
  readonly #work = new Map<SlotName, Promise<unknown>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Claims slots for one request. Until it is answered each of them is just being claimed: the kubelet lists none before, and
   * an API server may take its time for the others.
   */
  async forRequest<T>(request: (claims: RequestClaims) => Promise<T>): Promise<T> {
    const slots = new Set<SlotName>()
    const claim = <R>(slot: SlotName, work: () => Promise<R>): Promise<R> => {
      // Before the claim: whoever looks for slots that nobody uses must not see one without knowing how fresh it is.
      if (!slots.has(slot)) this.#underWay.set(slot, (this.#underWay.get(slot) ?? 0) + 1)
      slots.add(slot)
      return this.#exclusively(slot, work)
    }
    try {
      return await request({ claim })
    } finally {
      for (const slot of slots) {
        this.#claimedAt.set(slot, this.#clock.monotonicMs())
        const others = (this.#underWay.get(slot) ?? 1) - 1
        if (others === 0) this.#underWay.delete(slot)
        else this.#underWay.set(slot, others)
      }
    }
  }

  /** Releases the slot, unless it was claimed at `since` or later, or is being claimed. @returns undefined if it was */
  release<T>(slot: SlotName, since: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.#exclusively(slot, async () =>
      (this.lastClaimed(slot) ?? Number.NEGATIVE_INFINITY) >= since ? undefined : work(),
    )
  }

  /** Writes again what a container has already: nothing begins with it. */
  restore<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    return this.#exclusively(slot, work)
  }

  /** When this process last claimed the slot, by its clock: now, while it is doing so; undefined if it never did. */
  lastClaimed(slot: SlotName): number | undefined {
    return this.#underWay.has(slot) ? this.#clock.monotonicMs() : this.#claimedAt.get(slot)
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
