import { aborted, Backoff, type Clock, kindOf, runAfter } from '@akrijs/runtime'
import { KeyGroups } from './key-groups.js'

export interface ReconcileQueueOptions<Key extends string> {
  /**
   * Brings the world to what the spec of this key says, from the state that it finds.
   * @param recheckAfter also reconciles the key again after a failure of this call
   */
  reconcile(key: Key, signal: AbortSignal, recheckAfter: RecheckAfter): Promise<ReconcileResult>
  /** A reconcile failed: log the error as it is. */
  onError(key: Key, error: unknown, retryInMs: number): void
  readonly clock: Pick<Clock, 'sleep' | 'monotonicMs'>
  /**
   * How long an addition waits for others of its key, in milliseconds: between half and all of
   * it, so that programs which hear of a change together do not write together.
   * @default 0
   */
  readonly gatherMs?: number
  /** How many keys are reconciled at once. @default 4 */
  readonly concurrency?: number
  /**
   * The group of a key, such as its namespace; always the same for a key. Groups take turns, and
   * each group leaves a quarter of the calls to others, so that its slow calls do not stop them.
   * All groups whose calls are slow leave that quarter together.
   * @default all keys have the same group, which may have all calls
   */
  groupOf?(key: Key): string
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

export interface ReconcileResult {
  /** When to reconcile again without an addition, in milliseconds. @default never */
  readonly requeueAfterMs?: number
}

/**
 * Reconciles the key again after so many milliseconds at the latest; undefined changes nothing. Of
 * several calls the earliest counts.
 */
export type RecheckAfter = (ms: number | undefined) => void

/** The first back-off, in milliseconds, which doubles with each failure of the key; the longest. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }

/**
 * The longest wait before a key is tried again after a terminal error, in milliseconds. What the
 * error says can be over by something else than a change of the key: a policy of the cluster that
 * refused an object, and that a person corrects.
 */
const TERMINAL_MS = 300_000

/** One of so many parts of the calls is for other groups than the one that has the most calls. */
const RESERVED_PARTS = 4

/** Ends a wait. A constant, because an error of each wait would cost more than the wait. */
const OVERTAKEN = 'overtaken'

/** A key that waits for a time. */
interface Wait {
  readonly abort: AbortController
  /**
   * How long the wait is for further additions, at most. Any other wait is a retry, which an
   * addition overtakes.
   */
  readonly gatherMs: number | undefined
}

/**
 * Calls `reconcile` for the keys that are added. The queue is level-based: a hundred additions of
 * a waiting key are one call, and an addition during a call is one more call. A key never runs
 * twice at once.
 *
 * A rejection concerns its key only, and never stops the queue. A transient error and a bug are
 * retried with a back-off. After a terminal error the key waits for the next {@link
 * ReconcileQueue.add}, or for five minutes at most.
 */
export class ReconcileQueue<Key extends string> {
  readonly #options: Required<Omit<ReconcileQueueOptions<Key>, 'groupOf'>>
  readonly #groups: KeyGroups<Key>
  readonly #calls = new Set<Promise<void>>()
  readonly #waits = new Map<Key, Wait>()
  readonly #backoffs = new Map<Key, Backoff>()
  #signal: AbortSignal | undefined

  constructor({ groupOf, ...options }: ReconcileQueueOptions<Key>) {
    this.#options = { gatherMs: 0, concurrency: 4, random: Math.random, ...options }
    const { concurrency, clock } = this.#options
    const reserved = groupOf === undefined ? 0 : Math.floor(concurrency / RESERVED_PARTS)
    this.#groups = new KeyGroups(groupOf ?? (() => ''), concurrency - reserved, () =>
      clock.monotonicMs(),
    )
  }

  /** @param gatherMs for this addition; it overtakes an earlier one that gathers for longer */
  add(key: Key, gatherMs = this.#options.gatherMs): void {
    const before = this.#waits.get(key)?.gatherMs
    if (this.#groups.isWaiting(key) || (before !== undefined && before <= gatherMs)) return
    if (gatherMs > 0) this.#wait(key, gatherMs * (1 - this.#options.random() / 2), gatherMs)
    else this.#addNow(key)
  }

  /** How many keys wait for their turn, without those that wait for a time. */
  get depth(): number {
    return this.#groups.waiting
  }

  /** Works until the signal is aborted, and resolves when the last call has ended. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    this.#startCalls()
    await aborted(signal)
    for (const { abort } of this.#waits.values()) abort.abort(OVERTAKEN)
    this.#waits.clear()
    this.#groups.clear()
    await Promise.all(this.#calls)
  }

  #startCalls(): void {
    const signal = this.#signal
    if (!signal || signal.aborted) return
    while (this.#groups.running < this.#options.concurrency) {
      // Before the call, which may add the key again.
      const key = this.#groups.begin()
      if (key === undefined) return
      const call = this.#reconcile(key, signal)
      this.#calls.add(call)
      void call.then(() => this.#calls.delete(call))
    }
  }

  async #reconcile(key: Key, signal: AbortSignal): Promise<void> {
    let recheckMs = Infinity
    const recheckAfter: RecheckAfter = (ms = Infinity) => {
      recheckMs = Math.max(0, Math.min(recheckMs, ms))
    }
    try {
      const { requeueAfterMs } = await this.#options.reconcile(key, signal, recheckAfter)
      this.#backoffs.delete(key)
      recheckAfter(requeueAfterMs)
      if (recheckMs < Infinity) this.#retryLater(key, recheckMs)
    } catch (error) {
      if (!signal.aborted) this.#failed(key, error, recheckMs)
    } finally {
      this.#groups.end(key)
      this.#startCalls()
    }
  }

  #failed(key: Key, error: unknown, recheckMs: number): void {
    const { onError, random } = this.#options
    const backoff = this.#backoffs.get(key) ?? new Backoff({ ...BACKOFF, random })
    this.#backoffs.set(key, backoff)
    const next = backoff.next()
    const waitMs = kindOf(error) === 'terminal' ? TERMINAL_MS * (1 - random() / 2) : next
    const retryInMs = Math.min(waitMs, recheckMs)
    onError(key, error, retryInMs)
    this.#retryLater(key, retryInMs)
  }

  #retryLater(key: Key, ms: number): void {
    // The key may have been added during the call.
    if (!this.#groups.isWaiting(key) && !this.#waits.has(key)) this.#wait(key, ms)
  }

  #wait(key: Key, ms: number, gatherMs?: number): void {
    if (this.#signal?.aborted) return
    this.#waits.get(key)?.abort.abort(OVERTAKEN)
    const wait = { abort: new AbortController(), gatherMs }
    this.#waits.set(key, wait)
    runAfter(this.#options.clock, ms, wait.abort.signal, () => {
      if (this.#waits.get(key) === wait) this.#addNow(key)
    })
  }

  #addNow(key: Key): void {
    if (this.#signal?.aborted) return
    this.#waits.get(key)?.abort.abort(OVERTAKEN)
    this.#waits.delete(key)
    this.#groups.add(key)
    this.#startCalls()
  }
}
