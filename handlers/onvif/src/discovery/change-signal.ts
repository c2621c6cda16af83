/** Tells one consumer that something has changed since it last asked. Several changes count as one. */
export class ChangeSignal implements AsyncIterable<void> {
  #isChanged = false
  #end: { readonly error?: unknown } | undefined
  #wake: (() => void) | undefined

  notify(): void {
    this.#isChanged = true
    this.#wake?.()
  }

  /** Ends the iteration. @param error is thrown to the consumer */
  end(...error: [] | [unknown]): void {
    this.#end ??= error.length > 0 ? { error: error[0] } : {}
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<void, void, void> {
    for (;;) {
      if (this.#end) {
        if ('error' in this.#end) throw this.#end.error
        return
      }
      if (this.#isChanged) {
        this.#isChanged = false
        yield
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}
