import { keyParts, type ObjectKey } from '@akrijs/kube'
import { type Clock, Listeners, runAfter, TokenBucket } from '@akrijs/runtime'

/**
 * The Configurations of a namespace that hear of changes: a burst, then one in 50 ms. Each opens
 * its discoveries again, and sends up to 2.5 MB to each handler. Many Configurations can use one
 * object: a write of it each second must not restart a thousand discoveries each second.
 */
const RESTARTS = { burst: 200, refillMs: 50 }

interface Waiting {
  readonly budget: TokenBucket
  readonly configurations: Set<ObjectKey>
}

/** Tells Configurations that their properties have changed, within a budget of their namespace. */
export class PropertyChanges {
  readonly #clock: Clock
  readonly #stop: AbortSignal
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #namespaces = new Map<string, Waiting>()

  /** @param stop ends the waits */
  constructor(clock: Clock, stop: AbortSignal) {
    this.#clock = clock
    this.#stop = stop
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  tell(configuration: ObjectKey): void {
    const { namespace } = keyParts(configuration)
    const known = this.#namespaces.get(namespace)
    const waiting = known ?? {
      budget: new TokenBucket({ clock: this.#clock, ...RESTARTS }),
      configurations: new Set(),
    }
    this.#namespaces.set(namespace, waiting)
    const isFirst = waiting.configurations.size === 0
    waiting.configurations.add(configuration)
    if (isFirst) this.#drain(waiting)
  }

  #drain({ budget, configurations }: Waiting): void {
    for (const configuration of configurations) {
      const waitMs = budget.take()
      if (waitMs > 0) {
        runAfter(this.#clock, waitMs, this.#stop, () => this.#drain({ budget, configurations }))
        return
      }
      configurations.delete(configuration)
      this.#listeners.tell(configuration)
    }
  }
}
