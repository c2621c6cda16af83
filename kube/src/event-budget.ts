import { type Clock, TokenBucket } from '@akrijs/runtime'

/** The most Events of a namespace at once, and the milliseconds between its Events after that. */
const BURST = 25
const REFILL_MS = 10_000
/** The same for all namespaces. */
const TOTAL_BURST = 100
const TOTAL_REFILL_MS = 1000
/** The most namespaces that are remembered. */
const MAX_NAMESPACES = 200

/**
 * A budget of Events: each namespace has its own, so that failures in a namespace do not silence
 * the Events of others. All namespaces share a wider budget.
 */
export class EventBudget {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #total: TokenBucket
  /** The namespace that had an Event last comes last. */
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
    this.#total = new TokenBucket({ clock, burst: TOTAL_BURST, refillMs: TOTAL_REFILL_MS })
  }

  /** @returns whether an Event of the namespace may be written now */
  take(namespace: string): boolean {
    const bucket =
      this.#buckets.get(namespace) ??
      new TokenBucket({ clock: this.#clock, burst: BURST, refillMs: REFILL_MS })
    this.#buckets.delete(namespace)
    this.#buckets.set(namespace, bucket)
    const [oldest] = this.#buckets.keys()
    if (this.#buckets.size > MAX_NAMESPACES && oldest !== undefined) this.#buckets.delete(oldest)
    return bucket.take() === 0 && this.#total.take() === 0
  }
}
