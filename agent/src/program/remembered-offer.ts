import type { ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'

/** The longest wait for the offer, in milliseconds: a longer wait is no warm start. */
const LIMIT_MS = 1000

interface RememberedOfferOptions {
  /** The Configurations that have devices in the checkpoint. */
  readonly of: Iterable<ObjectKey>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/**
 * The first offer after a restart, of the devices in the checkpoint. Handlers are imported after
 * the offer, because an import blocks the thread. Without such devices there is no wait.
 */
export class RememberedOffer {
  /**
   * Resolves after the offer, and after a second in any case: the kubelet or the API server may be
   * away.
   */
  readonly made: Promise<void>
  readonly #open: Set<ObjectKey>
  readonly #done = new AbortController()

  constructor({ of, clock, signal }: RememberedOfferOptions) {
    this.#open = new Set(of)
    const either = AbortSignal.any([this.#done.signal, signal])
    this.made = clock.sleep(LIMIT_MS, either).catch(() => undefined)
    if (this.#open.size === 0) this.#done.abort()
  }

  /** Notes that the devices of a Configuration were offered, or that the offer failed. */
  tried(configuration: ObjectKey): void {
    if (this.#open.delete(configuration) && this.#open.size === 0) this.#done.abort()
  }
}
