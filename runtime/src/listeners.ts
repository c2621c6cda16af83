/** Those who want to hear of something, each until its signal is aborted. */
export class Listeners<Arguments extends readonly unknown[] = []> {
  readonly #listeners = new Set<(...args: Arguments) => void>()

  add(listener: (...args: Arguments) => void, signal: AbortSignal): void {
    if (signal.aborted) return
    // A wrapper, so that one function may listen twice.
    const own = (...args: Arguments) => listener(...args)
    this.#listeners.add(own)
    signal.addEventListener('abort', () => this.#listeners.delete(own), { once: true })
  }

  tell(...args: Arguments): void {
    // Of those who are there now: a listener may add or end others.
    for (const listener of [...this.#listeners]) listener(...args)
  }
}
