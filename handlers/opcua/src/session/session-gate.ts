/** Keeps sessions few: so many at a time, and one with each server, whoever wants them. */
export class SessionGate {
  readonly #atMost: number
  readonly #busy = new Set<string>()
  readonly #waiting: { readonly key: string; readonly go: () => void }[] = []

  constructor(atMost: number) {
    this.#atMost = atMost
  }

  /** Does the work when its turn has come. @throws the signal's reason when it is aborted before */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(key, signal)
    try {
      return await work()
    } finally {
      this.#busy.delete(key)
      this.#next()
    }
  }

  async #turn(key: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(entry), 1)
        reject(signal.reason)
      }
      const entry = {
        key,
        go: () => {
          signal.removeEventListener('abort', onAbort)
          resolve()
        },
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.push(entry)
      this.#next()
    })
  }

  #next(): void {
    while (this.#busy.size < this.#atMost) {
      const index = this.#waiting.findIndex(({ key }) => !this.#busy.has(key))
      const [entry] = index < 0 ? [] : this.#waiting.splice(index, 1)
      if (entry === undefined) return
      this.#busy.add(entry.key)
      entry.go()
    }
  }
}
