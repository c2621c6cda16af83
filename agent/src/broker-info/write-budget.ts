import type { Clock } from '@akrijs/sdk'

/** So many at once, and then one in so many milliseconds. */
const BURST = 100
const REFILL_MS = 100

/** How much all workloads of a node together may make the agent write: however many write in a loop, an API server has rest. */
export class WriteBudget {
  readonly #clock: Clock
  #tokens = BURST
  #refilledAt: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#refilledAt = clock.now()
  }

  /** @returns 0 where a write may be made now; else after how many milliseconds to ask again */
  take(): number {
    const refill = Math.floor((this.#clock.now() - this.#refilledAt) / REFILL_MS)
    this.#tokens = Math.min(BURST, this.#tokens + refill)
    this.#refilledAt += refill * REFILL_MS
    if (this.#tokens === 0) return REFILL_MS
    this.#tokens--
    return 0
  }
}
