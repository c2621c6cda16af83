import type { SlotName } from '@akrijs/api'
import { Backoff, type Clock } from '@akrijs/runtime'

interface Attempts {
  readonly backoff: Backoff
  readonly attemptedAt: number
  readonly retryAt: number
}

/** Between attempts to restore a slot, in milliseconds. */
const BACKOFF = { initialMs: 1000, ceilingMs: 30_000 }
/** The back-off of a slot starts again after this time without an attempt, in milliseconds. */
const RESET_MS = 60_000

/**
 * Back-off of the restores of each slot. It bounds the writes of this node when another program
 * frees the slot again and again, or when the API server is away.
 */
export class RestoreBackoff {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #slots = new Map<SlotName, Attempts>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /** Monotonic time from which the slot may be restored; 0 before the first attempt. */
  retryAt(slot: SlotName): number {
    return this.#slots.get(slot)?.retryAt ?? 0
  }

  /** The earliest future time at which a slot may be restored; infinite if there is none. */
  get nextRetryAt(): number {
    const now = this.#clock.monotonicMs()
    return Math.min(
      ...[...this.#slots.values()].flatMap(({ retryAt }) => (retryAt > now ? retryAt : [])),
    )
  }

  recordAttempt(slot: SlotName): void {
    const now = this.#clock.monotonicMs()
    for (const [name, { attemptedAt }] of this.#slots)
      if (now - attemptedAt >= RESET_MS) this.#slots.delete(name)
    const backoff = this.#slots.get(slot)?.backoff ?? new Backoff(BACKOFF)
    this.#slots.set(slot, { backoff, attemptedAt: now, retryAt: now + backoff.next() })
  }
}
