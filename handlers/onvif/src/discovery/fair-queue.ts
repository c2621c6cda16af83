export interface FairQueueOptions {
  /** How many tasks run at once. */
  readonly atOnce: number
  /** How many of one key run at once. */
  readonly perKey: number
}

type Task = () => Promise<void>

/** Runs tasks, of every key in turn: a key with a thousand of them holds up nobody else's. */
export class FairQueue {
  readonly #options: FairQueueOptions
  readonly #waiting = new Map<string, Task[]>()
  readonly #running = new Map<string, number>()
  readonly #idle = new Set<() => void>()
  #atOnce = 0

  constructor(options: FairQueueOptions) {
    this.#options = options
  }

  /** @param task must not reject */
  add(key: string, task: Task): void {
    this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), task])
    this.#startWhatMay()
  }

  /** Resolves when nothing runs and nothing waits. */
  async idle(): Promise<void> {
    if (this.#atOnce === 0 && this.#waiting.size === 0) return
    await new Promise<void>((resolve) => this.#idle.add(resolve))
  }

  #startWhatMay(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) this.#start(...next)
    if (this.#atOnce > 0) return
    for (const resolve of this.#idle) resolve()
    this.#idle.clear()
  }

  #next(): [key: string, task: Task] | undefined {
    if (this.#atOnce >= this.#options.atOnce) return undefined
    for (const [key, [task, ...others]] of this.#waiting) {
      if (task === undefined || (this.#running.get(key) ?? 0) >= this.#options.perKey) continue
      // Taken out and put in again: it is the last one now.
      this.#waiting.delete(key)
      if (others.length > 0) this.#waiting.set(key, others)
      return [key, task]
    }
    return undefined
  }

  #start(key: string, task: Task): void {
    this.#atOnce++
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
    void task().finally(() => {
      this.#atOnce--
      const left = (this.#running.get(key) ?? 1) - 1
      if (left > 0) this.#running.set(key, left)
      else this.#running.delete(key)
      this.#startWhatMay()
    })
  }
}
