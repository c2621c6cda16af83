import type { Clock } from '@akrijs/runtime'

/** How long a fact is kept without a question: the longest grace period, in milliseconds. */
const KEPT_MS = 24 * 3_600_000
/** The time between two searches for facts to forget, in milliseconds. */
const SWEEP_MS = 60_000

/**
 * When this replica first saw facts that no parser has dated. The times in objects are by clocks of
 * other machines: a clock that is ahead or behind must not move a broker or a node. So these times
 * are all of the past that the controller remembers, and each replica measures them again.
 */
export class FirstSights {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #seen = new Map<string, { fact: string; at: number; keptUntil: number }>()
  #sweepAt = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /**
   * Milliseconds since the first call with this fact.
   * @param subject what the fact is about
   * @param fact its text: another text is another fact
   * @param keptMs for how long the fact is kept without another call
   */
  ageMs(subject: string, fact: string, keptMs = KEPT_MS): number {
    const now = this.#clock.monotonicMs()
    if (this.#sweepAt <= now) this.#sweep(now)
    const before = this.#seen.get(subject)
    const at = before?.fact === fact ? before.at : now
    this.#seen.set(subject, { fact, at, keptUntil: now + keptMs })
    return now - at
  }

  /** The last fact about a subject, without a sight of it now. */
  last(subject: string): { readonly fact: string; readonly ageMs: number } | undefined {
    const seen = this.#seen.get(subject)
    return seen && { fact: seen.fact, ageMs: this.#clock.monotonicMs() - seen.at }
  }

  #sweep(now: number): void {
    this.#sweepAt = now + SWEEP_MS
    for (const [subject, { keptUntil }] of this.#seen)
      if (keptUntil <= now) this.#seen.delete(subject)
  }
}
