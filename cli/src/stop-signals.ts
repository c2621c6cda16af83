import os from 'node:os'

/**
 * npm passes a Ctrl-C on to a program that has had it from the terminal already: within this time, in milliseconds, two
 * signals are one.
 */
const SAME_PRESS_MS = 500

/**
 * What asks the program to end: SIGINT, SIGTERM and SIGHUP. Until {@link StopSignals.endInOrder} is called the first one ends
 * it at once, afterwards the second one.
 */
export class StopSignals {
  readonly #stop = new AbortController()
  readonly #beforeEnd: () => void
  #inOrder = false
  #first: number | undefined

  /** @param beforeEnd what has to be done, without waiting, before the process is ended at once */
  constructor(beforeEnd: () => void) {
    this.#beforeEnd = beforeEnd
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => this.#received(signal))
  }

  /** Aborted when everything is to be ended in order. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** From now on the first signal only aborts {@link signal}: there is something to be ended in order. */
  endInOrder(): void {
    this.#inOrder = true
  }

  /** As a first signal does. */
  abort(): void {
    this.#stop.abort()
  }

  #received(signal: NodeJS.Signals): void {
    const now = performance.now()
    this.#first ??= now
    if (this.#inOrder && now - this.#first < SAME_PRESS_MS) {
      this.#stop.abort()
      return
    }
    this.#beforeEnd()
    // By the signal, as without a listener: process.exit() waits for threads, and one may wait for a file system that hangs.
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // The first process of a container gets no signal that it has no listener for.
    process.exit(128 + os.constants.signals[signal])
  }
}
