/** Says that something has changed since it was last asked; how often is nobody's concern. */
export class ChangeSignal implements AsyncIterable<void> {
  #changed = false
  #end: { readonly error?: unknown } | undefined
  #wake: (() => void) | undefined

  tell(): void {
    this.#changed = true
    this.#wake?.()
  }

  /** Nothing changes after this. @param error what is thrown to who waits */
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
      if (this.#changed) {
        this.#changed = false
        yield
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}
