import type { Clock } from '../clock/clock.js'
import { checkWait, toLimit } from '../clock/interval.js'
import { InvalidIntervalError } from '../errors/errors.js'

interface Sleeper {
  readonly due: number
  readonly wake: () => void
}

/**
 * A clock that stands still until a test advances it.
 *
 * @example
 * const clock = new ManualClock()
 * await using session = discover(handler, { url: 'http://localhost:8080' }, { clock })
 * await clock.advance(10_000)
 */
export class ManualClock implements Clock {
  #now: number
  #setBy = 0
  readonly #sleepers = new Set<Sleeper>()
  readonly #watchers = new Set<() => void>()

  constructor(now = 0) {
    this.#now = now
  }

  monotonicMs(): number {
    return this.#now
  }

  wallMs(): number {
    return this.#now + this.#setBy
  }

  /**
   * Sets the machine's clock, and wakes no sleeper.
   * @param byMs forward, in milliseconds; a negative number sets the clock back
   */
  set(byMs: number): void {
    this.#setBy += byMs
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const sleeper: Sleeper = {
        due: this.#now + Math.max(0, checkWait(ms)),
        wake: () => {
          this.#sleepers.delete(sleeper)
          signal?.removeEventListener('abort', onAbort)
          resolve()
        },
      }
      const onAbort = () => {
        this.#sleepers.delete(sleeper)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#sleepers.add(sleeper)
      for (const watcher of this.#watchers) watcher()
    })
  }

  /** Milliseconds from now until each sleeper wakes, in order. */
  get sleeping(): number[] {
    return [...this.#sleepers].map(({ due }) => due - this.#now).sort((a, b) => a - b)
  }

  /** Resolves when there are at least so many sleepers. */
  async untilSleeping(count = 1): Promise<void> {
    while (this.#sleepers.size < count) {
      await new Promise<void>((resolve) => {
        const watcher = () => {
          this.#watchers.delete(watcher)
          resolve()
        }
        this.#watchers.add(watcher)
      })
    }
  }

  /**
   * Lets time pass: wakes the sleepers in the order of their times. Each sleeper sees the clock
   * at its own time, and its work runs before the next sleeper wakes.
   * @param time milliseconds, or a text such as `'10s'`
   * @throws InvalidIntervalError
   */
  async advance(time: number | string): Promise<void> {
    const end = this.#now + toStep(time)
    for (;;) {
      await settle()
      const next = [...this.#sleepers]
        .filter(({ due }) => due <= end)
        .sort((a, b) => a.due - b.due)[0]
      if (next === undefined) break
      this.#now = Math.max(this.#now, next.due)
      next.wake()
    }
    this.#now = end
    await settle()
  }
}

function toStep(time: number | string): number {
  const ms = toLimit(time)
  if (ms >= 0 && ms < Number.POSITIVE_INFINITY) return ms
  throw new InvalidIntervalError(`a clock cannot advance by ${ms} ms; write 0 or more`)
}

/** Lets pending promises continue. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}
