/** Callbacks for an event, each until its signal is aborted. */
export class Listeners<Arguments extends readonly unknown[] = []> {
  readonly #listeners = new Set<(...args: Arguments) => void>()

  add(listener: (...args: Arguments) => void, signal: AbortSignal): void {
    if (signal.aborted) return
    // A wrapper, so that one function may listen twice.
    const wrapped = (...args: Arguments) => listener(...args)
    this.#listeners.add(wrapped)
    signal.addEventListener('abort', () => this.#listeners.delete(wrapped), { once: true })
  }

  tell(...args: Arguments): void {
    // A copy: a listener may add or remove listeners.
    for (const listener of [...this.#listeners]) listener(...args)
  }
}
