import type { ApiClock } from './clock.js'

export interface ReconcileQueueOptions<Key extends string> {
  /**
   * Makes the world as it should be for this key, from how the world is now. May ask to be called again. A rejection is
   * retried with a back-off, unless the error's `kind` is `terminal`: then only the next {@link ReconcileQueue.add} tries again.
   */
  reconcile(key: Key, signal: AbortSignal): Promise<ReconcileResult>
  onError(key: Key, error: unknown, retryInMs: number | undefined): void
  readonly clock: Pick<ApiClock, 'sleep'>
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
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

/**
 * Calls `reconcile` for keys that were added: level-based, so that a hundred additions of a key that waits are one call,
 * and an addition while its key is being reconciled is one more call afterwards.
 */
export class ReconcileQueue<Key extends string> {
  readonly #options: Required<ReconcileQueueOptions<Key>>
  readonly #waiting = new Set<Key>()
  readonly #running = new Map<Key, Promise<void>>()
  readonly #later = new Map<Key, AbortController>()
  readonly #failures = new Map<Key, number>()
  #signal: AbortSignal | undefined
  #settled: (() => void) | undefined

  constructor(options: ReconcileQueueOptions<Key>) {
    this.#options = { random: Math.random, concurrency: 4, initialBackoffMs: 500, ceilingMs: 30_000, ...options }
  }

  add(key: Key): void {
    this.#later.get(key)?.abort()
    this.#later.delete(key)
    this.#waiting.add(key)
    this.#pump()
  }

  /** Works until the signal is aborted, and resolves when the last call has ended. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    this.#pump()
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    for (const later of this.#later.values()) later.abort()
    await Promise.all(this.#running.values())
  }

  /** Resolves when nothing waits or runs; retries that are due later do not count. */
  async settled(): Promise<void> {
    while (this.#waiting.size > 0 || this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#settled = resolve
      })
    }
  }

  #pump(): void {
    const signal = this.#signal
    if (!signal || signal.aborted) return
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return
      if (this.#running.has(key)) continue
      this.#waiting.delete(key)
      this.#running.set(key, this.#work(key, signal))
    }
  }

  async #work(key: Key, signal: AbortSignal): Promise<void> {
    try {
      const { requeueAfterMs } = await this.#options.reconcile(key, signal)
      this.#failures.delete(key)
      if (requeueAfterMs !== undefined) this.#addLater(key, requeueAfterMs, signal)
    } catch (error) {
      if (!signal.aborted) this.#failed(key, error, signal)
    } finally {
      this.#running.delete(key)
      this.#pump()
      if (this.#waiting.size === 0 && this.#running.size === 0) this.#settled?.()
    }
  }

  #failed(key: Key, error: unknown, signal: AbortSignal): void {
    const terminal = error instanceof Error && 'kind' in error && error.kind === 'terminal'
    const failures = (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    const { initialBackoffMs, ceilingMs, random } = this.#options
    const ceiling = Math.min(ceilingMs, initialBackoffMs * 2 ** Math.min(failures - 1, 30))
    // Between half and all of it: spread out, but never a hot loop.
    const retryInMs = terminal ? undefined : ceiling * (0.5 + random() / 2)
    this.#options.onError(key, error, retryInMs)
    if (retryInMs !== undefined) this.#addLater(key, retryInMs, signal)
  }

  #addLater(key: Key, ms: number, signal: AbortSignal): void {
    if (signal.aborted || this.#waiting.has(key)) return
    this.#later.get(key)?.abort()
    const later = new AbortController()
    this.#later.set(key, later)
    this.#options.clock.sleep(ms, later.signal).then(
      () => {
        if (this.#later.get(key) === later) this.add(key)
      },
      () => {
        // Overtaken by add() or by the end of the queue.
      },
    )
  }
}
