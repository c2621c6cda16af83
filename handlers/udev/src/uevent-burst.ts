import type { Clock } from '@akrijs/sdk'
import type { Change, Uevent } from './device-monitor.js'

export interface GatheringOptions {
  readonly clock: Clock
  /** A burst is over when nothing came for so long, in milliseconds. */
  readonly quietMs: number
  /** However long it goes on, something is told after so long, in milliseconds. */
  readonly ceilingMs: number
}

/** The most events of one burst that are kept; more are a rescan. */
const MAX_EVENTS = 1000

/** Makes one change of a burst of events: a hub that is plugged in is forty of them. */
export class UeventBurst implements AsyncIterable<Change> {
  readonly #options: GatheringOptions
  #events: Uevent[] = []
  #rescan: string | undefined
  #last = 0
  #wake: (() => void) | undefined
  readonly #stop = new AbortController()

  constructor(options: GatheringOptions) {
    this.#options = options
  }

  add(event: Uevent): void {
    if (this.#events.length >= MAX_EVENTS) this.#rescan ??= `more than ${MAX_EVENTS} events at once`
    else this.#events.push(event)
    this.#touched()
  }

  rescan(reason: string): void {
    this.#rescan ??= reason
    this.#touched()
  }

  end(): void {
    this.#stop.abort()
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change, void, void> {
    const { clock, quietMs, ceilingMs } = this.#options
    while (!this.#stop.signal.aborted) {
      if (this.#events.length === 0 && this.#rescan === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      const ceiling = clock.monotonicMs() + ceilingMs
      // A rescan looks at everything anyway: the first one is not worth waiting for.
      while (
        this.#events.length > 0 &&
        !this.#stop.signal.aborted &&
        clock.monotonicMs() < Math.min(this.#last + quietMs, ceiling)
      ) {
        await clock
          .sleep(Math.min(this.#last + quietMs, ceiling) - clock.monotonicMs(), this.#stop.signal)
          .catch(() => undefined)
      }
      if (this.#stop.signal.aborted) return
      yield this.#take()
    }
  }

  #take(): Change {
    const [events, reason] = [this.#events, this.#rescan]
    this.#events = []
    this.#rescan = undefined
    return reason === undefined ? { kind: 'events', events } : { kind: 'rescan', reason }
  }

  #touched(): void {
    this.#last = this.#options.clock.monotonicMs()
    this.#wake?.()
  }
}
