/** Closes the parts of a program in reverse order. */
export class Closer {
  readonly #closes: (() => unknown)[] = []
  #closing: Promise<void> | undefined

  /** Adds an open part. Parts that were added later close earlier. */
  add(close: () => unknown): void {
    this.#closes.push(close)
  }

  /** Adds an open part with a method `close`. @returns the part */
  own<T extends { close(): unknown }>(part: T): T {
    this.add(() => part.close())
    return part
  }

  /**
   * Closes all parts, one after the other, also after a failure.
   * @returns the same promise each time, which rejects with the first failure
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
