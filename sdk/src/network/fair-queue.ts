/** Options of {@link FairQueue}. */
export interface FairQueueOptions {
  /** The number of tasks that run at the same time. @default no limit */
  readonly atOnce?: number
  /** The number of tasks with the same key that run at the same time. */
  readonly perKey: number
}

/**
 * Runs tasks and takes the next task from each key in turn. A key with a thousand tasks does not
 * delay the tasks of other keys.
 *
 * @example
 * const queue = new FairQueue({ atOnce: 8, perKey: 1 })
 * for (const url of details.urls)
 *   void queue.run(new URL(url).host, () => listSensors(url, signal), signal)
 * await queue.idle()
 */
export class FairQueue {
  readonly #options: FairQueueOptions
  readonly #waiting = new Map<string, (() => void)[]>()
  readonly #running = new Map<string, number>()
  readonly #idle = new Set<() => void>()
  #total = 0

  constructor(options: FairQueueOptions) {
    this.#options = options
  }

  /**
   * Runs a task when its turn comes, at once if nothing stands in its way.
   * @param signal removes a task that still waits; the promise then rejects with the signal's
   * reason
   */
  run<T>(key: string, task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const start = () => {
        signal?.removeEventListener('abort', onAbort)
        // A task that throws before it returns a promise has failed as well.
        new Promise<T>((done) => done(task())).finally(() => this.#end(key)).then(resolve, reject)
      }
      const onAbort = () => {
        this.#setWaiting(
          key,
          this.#waitingOf(key).filter((waiting) => waiting !== start),
        )
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#setWaiting(key, [...this.#waitingOf(key), start])
      this.#startNext()
    })
  }

  /** Resolves when no task runs and no task waits. */
  async idle(): Promise<void> {
    if (this.#total === 0 && this.#waiting.size === 0) return
    await new Promise<void>((resolve) => this.#idle.add(resolve))
  }

  #startNext(): void {
    const { atOnce = Number.POSITIVE_INFINITY, perKey } = this.#options
    for (const [key, [start, ...others]] of this.#waiting) {
      if (this.#total >= atOnce) return
      if (start === undefined || (this.#running.get(key) ?? 0) >= perKey) continue
      // Removed and added again, so that the key is the last in the order; this loop comes to the
      // key once more.
      this.#waiting.delete(key)
      this.#setWaiting(key, others)
      this.#total++
      this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
      start()
    }
  }

  #end(key: string): void {
    this.#total--
    const left = (this.#running.get(key) ?? 1) - 1
    if (left > 0) this.#running.set(key, left)
    else this.#running.delete(key)
    this.#startNext()
    if (this.#total > 0) return
    for (const resolve of this.#idle) resolve()
    this.#idle.clear()
  }

  #waitingOf(key: string): (() => void)[] {
    return this.#waiting.get(key) ?? []
  }

  #setWaiting(key: string, waiting: (() => void)[]): void {
    if (waiting.length > 0) this.#waiting.set(key, waiting)
    else this.#waiting.delete(key)
  }
}
