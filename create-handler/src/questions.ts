import { createInterface } from 'node:readline/promises'

/** Questions to the person in front of a terminal. */
export class Questions implements Disposable {
  readonly #lines = createInterface({ input: process.stdin, output: process.stdout })
  readonly #closed = new AbortController()
  readonly #signal: AbortSignal

  /** @param signal ends a question */
  constructor(signal: AbortSignal) {
    this.#signal = AbortSignal.any([signal, this.#closed.signal])
    // By Ctrl-C or Ctrl-D. Node.js would wait for an answer for ever.
    this.#lines.once('close', () => this.#closed.abort())
  }

  /**
   * Asks until there is an answer that makes sense.
   *
   * @param read throws an error with what is wrong
   */
  async ask<T>(question: string, read: (answer: string) => T): Promise<T> {
    for (;;) {
      const answer = await this.#lines.question(question, { signal: this.#signal })
      try {
        return read(answer.trim())
      } catch (error) {
        process.stdout.write(`${error instanceof Error ? error.message : String(error)}\n`)
      }
    }
  }

  [Symbol.dispose](): void {
    this.#lines.close()
  }
}
