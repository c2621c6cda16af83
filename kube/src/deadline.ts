import type { Clock } from '@akrijs/runtime'

/** A timer with a longer time fires at once, in milliseconds. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** A signal that is aborted when a time has come, or together with another signal. */
export class Deadline {
  readonly #abort = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #end = () => this.end()
  #isOver = false

  /** @param at the time by the clock's `monotonicMs`, asked again when it has come: it may move */
  constructor(clock: Clock, at: () => number, outer?: AbortSignal) {
    this.#outer = outer
    if (outer?.aborted) this.end()
    // Not AbortSignal.any, which leaves a few bytes on a signal that lives as long as the program
    // (Node 20).
    outer?.addEventListener('abort', this.#end, { once: true })
    void this.#wait(clock, at)
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Whether the time has come before the end. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Aborts the signal, and stops waiting. */
  end(): void {
    this.#outer?.removeEventListener('abort', this.#end)
    this.#abort.abort(this.#outer?.reason)
  }

  async #wait(clock: Clock, at: () => number): Promise<void> {
    while (!this.signal.aborted) {
      const left = at() - clock.monotonicMs()
      if (left <= 0) {
        this.#isOver = true
        this.end()
      } else await clock.sleep(Math.min(left, LONGEST_TIMER_MS), this.signal).catch(() => undefined)
    }
  }
}
