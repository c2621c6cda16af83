import type { ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'

/** How long is waited for it at most, in milliseconds: longer than that is no warm start. */
const PATIENCE_MS = 1000

export interface RememberedOfferOptions {
  /** The Configurations of which devices are remembered. */
  readonly of: Iterable<ObjectKey>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/**
 * The first offer after a restart: of what is remembered. Handlers are imported after it, since that keeps the one thread busy
 * that everything is done on. Where nothing is remembered there is nothing to wait for.
 */
export class RememberedOffer {
  /** Resolves when it has been made, and after a second in any case: a kubelet or an API server may be away for long. */
  readonly made: Promise<void>
  readonly #open: Set<ObjectKey>
  readonly #done = new AbortController()

  constructor({ of, clock, signal }: RememberedOfferOptions) {
    this.#open = new Set(of)
    const either = AbortSignal.any([this.#done.signal, signal])
    this.made = clock.sleep(PATIENCE_MS, either).catch(() => undefined)
    if (this.#open.size === 0) this.#done.abort()
  }

  /** What is remembered of this Configuration has been offered, or cannot be at present. */
  tried(configuration: ObjectKey): void {
    if (this.#open.delete(configuration) && this.#open.size === 0) this.#done.abort()
  }
}
