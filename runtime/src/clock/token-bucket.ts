import type { Clock } from './clock.js'

interface TokenBucketOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** The tokens at the beginning, and the most tokens. */
  readonly burst: number
  /** The milliseconds until there is another token. */
  readonly refillMs: number
}

/**
 * A budget of writes: a burst at once, then a write per interval. Other programs must not be able
 * to cause a load.
 */
export class TokenBucket {
  readonly #options: TokenBucketOptions
  #tokens: number
  #refilledAt: number

  constructor(options: TokenBucketOptions) {
    this.#options = options
    this.#tokens = options.burst
    this.#refilledAt = options.clock.monotonicMs()
  }

  /** @returns 0 if a token was taken; else the milliseconds until the next attempt */
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
