import os from 'node:os'

/**
 * The terminal sends Ctrl-C to a program, and npm sends it again: two signals within this time, in
 * milliseconds, count as one.
 */
const SAME_PRESS_MS = 500

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Ends the process by each further signal, with the exit code of a shell for the signal. */
export function endOnSignals(): void {
  for (const signal of SIGNALS)
    process.on(signal, () => process.exit(128 + os.constants.signals[signal]))
}

/**
 * SIGINT, SIGTERM and SIGHUP. The first signal aborts {@link signal}, and the second one ends the
 * process at once. While work may block, the first signal ends the process.
 */
export class StopSignals {
  readonly #stop = new AbortController()
  readonly #listener = (signal: NodeJS.Signals) => this.#received(signal)
  readonly #atSuddenEnd: (() => void)[] = []
  #isBlocking = false
  #first: number | undefined

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#listener)
  }

  /** Aborted when the program has to end in order. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Aborts {@link signal}, as the first signal does. */
  stop(): void {
    this.#stop.abort()
  }

  /** Does work that may block, such as loading code: a signal ends the process at once. */
  async mayBlock<T>(work: () => Promise<T>): Promise<T> {
    this.#isBlocking = true
    // Without a listener, a signal also ends a process whose thread is blocked. But process 1 of a
    // container gets no signal that it does not listen for.
    if (process.pid !== 1) for (const signal of SIGNALS) process.off(signal, this.#listener)
    try {
      return await work()
    } finally {
      this.#isBlocking = false
      if (process.pid !== 1) for (const signal of SIGNALS) process.on(signal, this.#listener)
    }
  }

  /** Adds work, without waiting, for the case that the process ends at once. */
  onSuddenEnd(work: () => void): void {
    this.#atSuddenEnd.push(work)
  }

  /** Does the work of {@link onSuddenEnd}. */
  beforeSuddenEnd(): void {
    for (const work of this.#atSuddenEnd.splice(0)) work()
  }

  #received(signal: NodeJS.Signals): void {
    const now = performance.now()
    this.#first ??= now
    if (!this.#isBlocking && now - this.#first < SAME_PRESS_MS) {
      this.#stop.abort()
      return
    }
    this.beforeSuddenEnd()
    // The default action of the signal: process.exit() waits for threads, and a thread may wait
    // for a file system that hangs.
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // For process 1.
    process.exit(128 + os.constants.signals[signal])
  }
}
