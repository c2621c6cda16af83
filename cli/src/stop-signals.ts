import os from 'node:os'

/**
 * The terminal sends Ctrl-C to a program, and npm sends it again: two signals within this time, in
 * milliseconds, count as one.
 */
const SAME_PRESS_MS = 500

/**
 * SIGINT, SIGTERM and SIGHUP. The first signal ends the program at once; after
 * {@link StopSignals.endInOrder} was called, only the second signal does.
 */
export class StopSignals {
  readonly #stop = new AbortController()
  readonly #beforeEnd: () => void
  #inOrder = false
  #first: number | undefined

  /** @param beforeEnd runs, without waiting, before a signal ends the program at once */
  constructor(beforeEnd: () => void) {
    this.#beforeEnd = beforeEnd
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => this.#received(signal))
  }

  /** Aborted when the program has to end in order. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** From now on the first signal only aborts {@link signal}: brokers have to be ended first. */
  endInOrder(): void {
    this.#inOrder = true
  }

  /** Aborts {@link signal}, as the first signal does. */
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
    // The default action of the signal: process.exit() waits for threads, and a thread may wait
    // for a file system that hangs.
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // Process 1 of a container gets no signal that it does not listen for.
    process.exit(128 + os.constants.signals[signal])
  }
}
