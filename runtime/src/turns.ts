/** The longest work without a turn for other work, in milliseconds. */
const TURN_MS = 10

/**
 * Interrupts long work, so that other work of the process gets its turn: health checks, and
 * allocations. The work checks {@link isOver} between small steps.
 */
export class Turns {
  #began = performance.now()

  /** No promise, because the steps are small and many. */
  get isOver(): boolean {
    return performance.now() - this.#began >= TURN_MS
  }

  /** Lets other work run. */
  async next(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.#began = performance.now()
  }
}
