import type { Clock } from '@akrijs/runtime'

/** After so long without a question a fact is forgotten, in milliseconds. */
const FORGET_MS = 24 * 3_600_000

/**
 * When this replica first saw facts that no parser has dated. The times in objects are by clocks of
 * other machines: a clock that is ahead or behind must not move a broker or a node. So these times
 * are all of the past that the controller remembers, and each replica measures them again.
 */
export class FirstSights {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** By subject, the one that was asked about last at the end. */
  readonly #seen = new Map<string, { fact: string; at: number; askedAt: number }>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /**
   * Milliseconds since the first call with this fact.
   * @param subject what the fact is about
   * @param fact its text: another text is another fact
   */
  ageMs(subject: string, fact: string): number {
    const now = this.#clock.monotonicMs()
    const before = this.#seen.get(subject)
    const at = before?.fact === fact ? before.at : now
    this.#seen.delete(subject)
    this.#seen.set(subject, { fact, at, askedAt: now })
    for (const [old, { askedAt }] of this.#seen) {
      if (askedAt + FORGET_MS > now) break
      this.#seen.delete(old)
    }
    return now - at
  }

  /** The last fact about a subject, without a sight of it now. */
  last(subject: string): { readonly fact: string; readonly ageMs: number } | undefined {
    const seen = this.#seen.get(subject)
    return seen && { fact: seen.fact, ageMs: this.#clock.monotonicMs() - seen.at }
  }
}
