import type { Clock } from './clock.js'

export interface TokenBucketOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** How many there are at the beginning, and at most. */
  readonly burst: number
  /** After how many milliseconds there is one more. */
  readonly refillMs: number
}

/** So many at once, and then one in so many milliseconds: what others bring about must never become a load. */
export class TokenBucket {
  readonly #options: TokenBucketOptions
  #tokens: number
  #refilledAt: number

  constructor(options: TokenBucketOptions) {
    this.#options = options
    this.#tokens = options.burst
    this.#refilledAt = options.clock.monotonicMs()
  }

  /** @returns 0 where one was taken; else after how many milliseconds to ask again */
  take(): number {
    const { clock, burst, refillMs } = this.#options
    const refill = Math.floor((clock.monotonicMs() - this.#refilledAt) / refillMs)
    this.#tokens = Math.min(burst, this.#tokens + refill)
    this.#refilledAt += refill * refillMs
    if (this.#tokens === 0) return refillMs
    this.#tokens--
    return 0
  }
}
