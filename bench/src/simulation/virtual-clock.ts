import type { Clock } from '@akrijs/runtime'

interface Sleeper {
  readonly wake: () => void
}

/** A clock that goes on to the next sleeper as soon as the process has nothing else to do. */
export class VirtualClock implements Clock {
  #now = 0
  /** By the time when they are due, in milliseconds. */
  readonly #sleepers = new Map<number, Set<Sleeper>>()

  monotonicMs(): number {
    return this.#now
  }

  wallMs(): number {
    return Date.UTC(2026, 0) + this.#now
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const due = Math.ceil(this.#now + Math.max(ms, 0))
      const at = this.#sleepers.get(due) ?? new Set()
      this.#sleepers.set(due, at)
      const stop = () => {
        at.delete(sleeper)
        reject(signal?.reason)
      }
      const sleeper = {
        wake: () => {
          signal?.removeEventListener('abort', stop)
          resolve()
        },
      }
      at.add(sleeper)
      signal?.addEventListener('abort', stop, { once: true })
    })
  }

  /** Lets time pass until a condition holds. @returns how long that took, in milliseconds */
  async runUntil(isOver: () => boolean, limitMs: number): Promise<number> {
    const begun = this.#now
    for (;;) {
      await idle()
      if (isOver()) return this.#now - begun
      const next = Math.min(...this.#sleepers.keys())
      if (next - begun > limitMs) throw new Error(`not over after ${limitMs} ms of virtual time`)
      this.#now = next
      const due = this.#sleepers.get(next) ?? []
      this.#sleepers.delete(next)
      for (const { wake } of due) wake()
    }
  }
}

/** Resolves when no promise, no file and no socket of this process has work to do. */
async function idle(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (process.getActiveResourcesInfo().some((name) => /^(FSReq|Immediate)/.test(name))) turns = 0
  }
}
