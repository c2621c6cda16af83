import { aborted, type Clock } from '@akrijs/sdk'

/** Wakes one waiting task. A ring without a waiting task wakes the next task at once. */
export class Bell {
  #isRung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#isRung = true
    this.#wake?.()
  }

  /** Resolves at the next ring, when the signal is aborted, or after `ms`. */
  async wait(
    signal: AbortSignal,
    time?: { readonly clock: Clock; readonly ms: number },
  ): Promise<void> {
    const over = new AbortController()
    const stop = () => over.abort()
    this.#wake = stop
    signal.addEventListener('abort', stop, { once: true })
    if (this.#isRung || signal.aborted) stop()
    await Promise.all([
      time?.clock.sleep(time.ms, over.signal).then(stop, () => undefined),
      aborted(over.signal),
    ])
    signal.removeEventListener('abort', stop)
    this.#wake = undefined
    this.#isRung = false
  }
}
