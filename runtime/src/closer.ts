/** Closes what was opened, in reverse order. */
export class Closer {
  readonly #closes: (() => unknown)[] = []
  #closing: Promise<void> | undefined

  /** Adds something that is open. Parts that were added later close earlier. */
  add(close: () => unknown): void {
    this.#closes.push(close)
  }

  /**
   * Closes everything, one after the other. A failure does not keep the others open.
   * @returns the same promise each time; it rejects with the first failure
   */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll()
    return this.#closing
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = []
    for (let close = this.#closes.pop(); close !== undefined; close = this.#closes.pop()) {
      try {
        await close()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
}
