/**
 * Hands values from a producer to one consumer and keeps only the newest value. A slow consumer
 * misses old values, which take no memory.
 *
 * @example
 * const lists = new Latest<Device[]>()
 * hub.on('sensors', (sensors: Device[]) => lists.push(sensors))
 * hub.on('error', (error: Error) => lists.end(error))
 * yield* lists
 */
export class Latest<T> implements AsyncIterable<T> {
  #value: { readonly value: T } | undefined
  #end: { readonly error?: unknown } | undefined
  #wake: (() => void) | undefined

  /** Replaces a value that the consumer has not taken yet. Does nothing after the end. */
  push(value: T): void {
    if (this.#end) return
    this.#value = { value }
    this.#wake?.()
  }

  /**
   * After this call the consumer gets the newest value, if it is new, and then the end or the
   * error.
   */
  end(...error: [] | [unknown]): void {
    this.#end ??= error.length > 0 ? { error: error[0] } : {}
    this.#wake?.()
  }

  /** The newest value each time. Ends after {@link end}, and throws its error. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    for (;;) {
      if (this.#value) {
        const { value } = this.#value
        this.#value = undefined
        yield value
      } else if (this.#end) {
        if ('error' in this.#end) throw this.#end.error
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}
