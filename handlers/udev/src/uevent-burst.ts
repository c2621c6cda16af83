import type { Clock } from '@akrijs/sdk'
import type { Change, Uevent } from './device-monitor.js'

interface UeventBurstOptions {
  readonly clock: Clock
  /** A burst ends after this time without an event, in milliseconds. */
  readonly quietMs: number
  /** A longer burst is reported in parts, in milliseconds. */
  readonly ceilingMs: number
}

/** The limit of events of a burst; more events cause a rescan. */
const MAX_EVENTS = 1000

/** Combines a burst of events into one change: plugging in a hub causes forty events. */
export class UeventBurst implements AsyncIterable<Change> {
  readonly #options: UeventBurstOptions
  #events: Uevent[] = []
  #rescan: string | undefined
  #lastAt = 0
  #wake: (() => void) | undefined
  readonly #signal: AbortSignal

  /** @param signal ends the iteration */
  constructor(options: UeventBurstOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    signal.addEventListener('abort', () => this.#wake?.(), { once: true })
  }

  add(event: Uevent): void {
    if (this.#events.length >= MAX_EVENTS)
      this.#rescan ??= `a burst has more than ${MAX_EVENTS} events`
    else this.#events.push(event)
    this.#update()
  }

  rescan(reason: string): void {
    this.#rescan ??= reason
    this.#update()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change, void, void> {
    const { clock, quietMs, ceilingMs } = this.#options
    while (!this.#signal.aborted) {
      if (this.#events.length === 0 && this.#rescan === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      const ceiling = clock.monotonicMs() + ceilingMs
      // A rescan covers later events too, so a burst without events need not wait.
      while (
        this.#events.length > 0 &&
        !this.#signal.aborted &&
        clock.monotonicMs() < Math.min(this.#lastAt + quietMs, ceiling)
      ) {
        await clock
          .sleep(Math.min(this.#lastAt + quietMs, ceiling) - clock.monotonicMs(), this.#signal)
          .catch(() => undefined)
      }
      if (this.#signal.aborted) return
      yield this.#take()
    }
  }

  #take(): Change {
    const [events, reason] = [this.#events, this.#rescan]
    this.#events = []
    this.#rescan = undefined
    return reason === undefined ? { kind: 'events', events } : { kind: 'rescan', reason }
  }

  #update(): void {
    this.#lastAt = this.#options.clock.monotonicMs()
    this.#wake?.()
  }
}
