import type { Clock } from '../clock.js'

/** The time in which use counts, in milliseconds. */
const WINDOW_MS = 10_000
/** The most peers whose use is remembered: a client can have many addresses. */
const MAX_PEERS = 4096

/** How much each peer has used of something in the last seconds. */
export class RecentUse {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #used = new Map<string, number>()
  #windowBegan: number

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
    this.#windowBegan = clock.monotonicMs()
  }

  charge(peer: string, amount: number): void {
    const now = this.#clock.monotonicMs()
    if (now - this.#windowBegan >= WINDOW_MS || this.#used.size >= MAX_PEERS) {
      this.#used.clear()
      this.#windowBegan = now
    }
    this.#used.set(peer, this.of(peer) + amount)
  }

  of(peer: string): number {
    return this.#used.get(peer) ?? 0
  }

  /** The first candidate of the peer that has used least. */
  least<Candidate extends { readonly peer: string }>(
    candidates: Iterable<Candidate>,
  ): Candidate | undefined {
    let least: Candidate | undefined
    for (const candidate of candidates)
      if (least === undefined || this.of(candidate.peer) < this.of(least.peer)) least = candidate
    return least
  }
}
