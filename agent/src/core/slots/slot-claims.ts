import type { SlotName } from '@akrijs/api'
import type { Clock } from '@akrijs/runtime'

/** The claims of one request of the kubelet. */
export interface RequestClaims {
  /** Claims the slot by `work`, and records the time of the claim. */
  claim<T>(slot: SlotName, work: () => Promise<T>): Promise<T>
}

/**
 * The claims, releases and restores of this process, one at a time for each slot. A slot that was
 * just allocated must not be lost to a release that was planned before.
 */
export class SlotClaims {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #claimedAt = new Map<SlotName, number>()
  /** By slot the number of unanswered requests that claim the slot. */
  readonly #pending = new Map<SlotName, number>()
  readonly #work = new Map<SlotName, Promise<unknown>>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /**
   * Runs one request of the kubelet. Its slots count as claimed now until the request is answered:
   * the kubelet lists none of them before, and the API server may be slow for the others.
   */
  async forRequest<T>(request: (claims: RequestClaims) => Promise<T>): Promise<T> {
    const slots = new Set<SlotName>()
    const claim = <R>(slot: SlotName, work: () => Promise<R>): Promise<R> => {
      // Before the claim is written: a reconcile that finds the claim must see that it is young.
      if (!slots.has(slot)) this.#pending.set(slot, (this.#pending.get(slot) ?? 0) + 1)
      slots.add(slot)
      return this.#exclusively(slot, work)
    }
    try {
      return await request({ claim })
    } finally {
      for (const slot of slots) {
        this.#claimedAt.set(slot, this.#clock.monotonicMs())
        const others = (this.#pending.get(slot) ?? 1) - 1
        if (others === 0) this.#pending.delete(slot)
        else this.#pending.set(slot, others)
      }
    }
  }

  /** Releases the slot, unless it was claimed at `since` or later. @returns undefined if it was */
  release<T>(slot: SlotName, since: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.#exclusively(slot, async () =>
      (this.lastClaimed(slot) ?? Number.NEGATIVE_INFINITY) >= since ? undefined : work(),
    )
  }

  /**
   * Restores a lost claim. The time of the last claim stays, because no container starts with the
   * restore.
   */
  restore<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    return this.#exclusively(slot, work)
  }

  /**
   * Monotonic time of the last claim: now during a request; undefined if this process has not
   * claimed the slot.
   */
  lastClaimed(slot: SlotName): number | undefined {
    return this.#pending.has(slot) ? this.#clock.monotonicMs() : this.#claimedAt.get(slot)
  }

  /** Forgets the times of slots that no longer exist. */
  forget(isGone: (slot: SlotName) => boolean): void {
    for (const slot of [...this.#claimedAt.keys()]) if (isGone(slot)) this.#claimedAt.delete(slot)
  }

  #exclusively<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    const result = (this.#work.get(slot) ?? Promise.resolve()).then(work)
    const settled = result.catch(() => undefined)
    this.#work.set(slot, settled)
    void settled.then(() => {
      if (this.#work.get(slot) === settled) this.#work.delete(slot)
    })
    return result
  }
}
