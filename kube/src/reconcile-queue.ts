import type { Clock } from '@akrijs/runtime'

export interface ReconcileQueueOptions<Key extends string> {
  /**
   * Makes the world as it should be for this key, from how the world is now. May ask to be called again. A rejection is
   * retried with a back-off, unless the error's `kind` is `terminal`: then only the next {@link ReconcileQueue.add} tries again.
   */
  reconcile(key: Key, signal: AbortSignal): Promise<ReconcileResult>
  onError(key: Key, error: unknown, retryInMs: number | undefined): void
  readonly clock: Pick<Clock, 'sleep'>
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /**
   * How long an addition waits for others of its key, at most, in milliseconds: between half and all of it, so that those who
   * hear of something together do not write together. @default 0: not at all
   */
  readonly gatherMs?: number
  /** How many keys may be reconciled at once; one key never runs twice at the same time. @default 4 */
  readonly concurrency?: number
  /** Milliseconds before the first retry; doubles with each failure. @default 500 */
  readonly initialBackoffMs?: number
  /** The longest time between retries, in milliseconds. @default 30000 */
  readonly ceilingMs?: number
}

export interface ReconcileResult {
  readonly requeueAfterMs?: number
}

/** A key that is not to be reconciled yet. */
interface Later {
  readonly wait: AbortController
  /** For further additions; otherwise it is a retry, which an addition overtakes. */
  readonly gathers: boolean
}

/**
 * Calls `reconcile` for keys that were added: level-based, so that a hundred additions of a key that waits are one call,
 * and an addition while its key is being reconciled is one more call afterwards.
 */
export class ReconcileQueue<Key extends string> {
  readonly #options: Required<ReconcileQueueOptions<Key>>
  readonly #waiting = new Set<Key>()
  readonly #running = new Set<Key>()
  readonly #work = new Set<Promise<void>>()
  readonly #later = new Map<Key, Later>()
  readonly #failures = new Map<Key, number>()
  #signal: AbortSignal | undefined
  readonly #settling = new Set<() => void>()

  constructor(options: ReconcileQueueOptions<Key>) {
    this.#options = {
      random: Math.random,
      gatherMs: 0,
      concurrency: 4,
      initialBackoffMs: 500,
      ceilingMs: 30_000,
      ...options,
    }
  }

  add(key: Key): void {
    const { gatherMs, random } = this.#options
    if (this.#waiting.has(key) || this.#later.get(key)?.gathers) return
    if (gatherMs > 0) this.#addLater(key, gatherMs * (0.5 + random() / 2), true)
    else this.#addNow(key)
  }

  /** Works until the signal is aborted, and resolves when the last call has ended. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    this.#pump()
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    for (const { wait } of this.#later.values()) wait.abort()
    this.#later.clear()
    this.#waiting.clear()
    await Promise.all(this.#work)
    this.#tellSettled()
  }

  /** Resolves when nothing is gathered, waits or runs; retries that are due later do not count. */
  async settled(): Promise<void> {
    while (this.#isBusy()) await new Promise<void>((resolve) => this.#settling.add(resolve))
  }

  #isBusy(): boolean {
    return (
      this.#waiting.size > 0 ||
      this.#running.size > 0 ||
      [...this.#later.values()].some(({ gathers }) => gathers)
    )
  }

  #tellSettled(): void {
    if (this.#isBusy()) return
    for (const resolve of this.#settling) resolve()
    this.#settling.clear()
  }

  #pump(): void {
    const signal = this.#signal
    if (!signal || signal.aborted) return
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return
      if (this.#running.has(key)) continue
      this.#waiting.delete(key)
      // Before the call, which may add the key again.
      this.#running.add(key)
      const work = this.#reconcile(key, signal)
      this.#work.add(work)
      void work.then(() => this.#work.delete(work))
    }
  }

  async #reconcile(key: Key, signal: AbortSignal): Promise<void> {
    try {
      const { requeueAfterMs } = await this.#options.reconcile(key, signal)
      this.#failures.delete(key)
      if (requeueAfterMs !== undefined) this.#retryLater(key, requeueAfterMs)
    } catch (error) {
      if (!signal.aborted) this.#failed(key, error)
    } finally {
      this.#running.delete(key)
      this.#pump()
      this.#tellSettled()
    }
  }

  #failed(key: Key, error: unknown): void {
    const terminal = error instanceof Error && 'kind' in error && error.kind === 'terminal'
    const failures = (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    const { initialBackoffMs, ceilingMs, random } = this.#options
    const ceiling = Math.min(ceilingMs, initialBackoffMs * 2 ** Math.min(failures - 1, 30))
    // Between half and all of it: spread out, but never a hot loop.
    const retryInMs = terminal ? undefined : ceiling * (0.5 + random() / 2)
    this.#options.onError(key, error, retryInMs)
    if (retryInMs !== undefined) this.#retryLater(key, retryInMs)
  }

  #retryLater(key: Key, ms: number): void {
    // It was added while it was reconciled.
    if (!this.#waiting.has(key) && !this.#later.has(key)) this.#addLater(key, ms, false)
  }

  #addLater(key: Key, ms: number, gathers: boolean): void {
    if (this.#signal?.aborted) return
    this.#later.get(key)?.wait.abort()
    const later = { wait: new AbortController(), gathers }
    this.#later.set(key, later)
    this.#options.clock.sleep(ms, later.wait.signal).then(
      () => {
        if (this.#later.get(key) === later) this.#addNow(key)
      },
      () => {
        // Overtaken by add() or by the end of the queue.
      },
    )
  }

  #addNow(key: Key): void {
    if (this.#signal?.aborted) return
    this.#later.get(key)?.wait.abort()
    this.#later.delete(key)
    this.#waiting.add(key)
    this.#pump()
  }
}
