import type { Clock } from '@akrijs/sdk'

/** Wakes one who waits. A ring while nobody waits is kept for the next one. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#rung = true
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
    if (this.#rung || signal.aborted) stop()
    await Promise.all([
      time?.clock.sleep(time.ms, over.signal).then(stop, () => undefined),
      new Promise<void>((resolve) => {
        if (over.signal.aborted) resolve()
        over.signal.addEventListener('abort', () => resolve(), { once: true })
      }),
    ])
    signal.removeEventListener('abort', stop)
    this.#wake = undefined
    this.#rung = false
  }
}
