/**
 * The order of work that is never finished: what waits longest comes first. New work, and work that
 * comes back, goes to the end. So each piece of work has its turn, although other work comes all
 * the time.
 */
export class FairRound<Key> {
  /** In the order in which the work came. */
  readonly #waiting = new Set<Key>()

  /**
   * Takes over the present work.
   * @returns the work in its order
   */
  follow<Work>(work: ReadonlyMap<Key, Work>): Work[] {
    for (const key of this.#waiting) if (!work.has(key)) this.#waiting.delete(key)
    for (const key of work.keys()) this.#waiting.add(key)
    return [...this.#waiting].flatMap((key) => work.get(key) ?? [])
  }

  /** Notes that a piece of work had its turn. */
  had(key: Key): void {
    this.#waiting.delete(key)
  }
}
