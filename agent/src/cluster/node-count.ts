import type { Clock } from '@akrijs/runtime'

/**
 * The least time between two counts that look at all objects, in milliseconds. A number that is too
 * high meanwhile only makes waits longer.
 */
const COUNT_MS = 60_000

/**
 * How many nodes the cluster has at least: the most that one object shows. A larger number counts
 * at once, a smaller one with the next count.
 */
export class NodeCount {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #shown: () => readonly number[]
  #most = 1
  #countedAt: number

  /** @param shown the number of nodes that each present object shows */
  constructor(clock: Pick<Clock, 'monotonicMs'>, shown: () => readonly number[]) {
    this.#clock = clock
    this.#shown = shown
    this.#countedAt = clock.monotonicMs()
  }

  seen(nodes: number): void {
    this.#most = Math.max(this.#most, nodes)
  }

  get most(): number {
    const now = this.#clock.monotonicMs()
    if (now < this.#countedAt + COUNT_MS) return this.#most
    this.#countedAt = now
    this.#most = this.#shown().reduce((most, nodes) => Math.max(most, nodes), 1)
    return this.#most
  }
}
