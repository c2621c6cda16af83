import type { SlotName } from '@akrijs/api'
import { Backoff, type Clock } from '@akrijs/runtime'

/** The waits between one try and the next, in milliseconds. */
const WAITS = { initialMs: 1000, ceilingMs: 30_000 }
/** After so long without a try the next one is the first again, in milliseconds. */
const FORGOTTEN_MS = 60_000

/**
 * When a slot may be claimed again: at once, and then after growing pauses, so that whoever frees it again and again, or an API
 * server that cannot be asked, does not keep this node writing.
 */
export class RestoreBackoff {
  readonly #clock: Clock
  readonly #slots = new Map<SlotName, { readonly waits: Backoff; triedAt: number; dueAt: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The earliest time of the next try, by the clock. */
  dueAt(slot: SlotName): number {
    return this.#slots.get(slot)?.dueAt ?? 0
  }

  recordAttempt(slot: SlotName): void {
    const now = this.#clock.monotonicMs()
    for (const [other, { triedAt }] of this.#slots)
      if (now - triedAt >= FORGOTTEN_MS) this.#slots.delete(other)
    const waits = this.#slots.get(slot)?.waits ?? new Backoff(WAITS)
    this.#slots.set(slot, { waits, triedAt: now, dueAt: now + waits.next() })
  }
}
