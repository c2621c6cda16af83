import { runAfter, systemClock, toLimit } from '@akrijs/runtime'
import { SimulatedAgentError } from './errors.js'

/** The longest wait of a test for a registration, a list or an end, in milliseconds. */
export const WAIT_MS = 10_000

/** The lists of a discovery, until a test takes them. */
export class ListQueue<List> {
  readonly #lists: List[] = []
  #end: (() => unknown) | undefined
  /** Of each {@link next} that waits. */
  readonly #wakers = new Set<() => void>()

  /** The number of lists that wait. */
  get length(): number {
    return this.#lists.length
  }

  /** Whether no list can follow those that wait. */
  get isEnded(): boolean {
    return this.#end !== undefined
  }

  push(list: List): void {
    this.#lists.push(list)
    this.#wake()
  }

  /** @param error what {@link next} throws after the lists that wait; the first end counts */
  end(error: () => unknown): void {
    this.#end ??= error
    this.#wake()
  }

  /**
   * @param hint for the message when no list comes in time @default nothing
   * @throws InvalidIntervalError
   */
  async next(withinMs: number, hint: () => string = () => ''): Promise<List> {
    const ms = toLimit(withinMs)
    const over = new AbortController()
    let isLate = false
    runAfter(systemClock, ms, over.signal, () => {
      isLate = true
      this.#wake()
    })
    try {
      for (;;) {
        const list = this.#lists.shift()
        if (list !== undefined) return list
        if (this.#end !== undefined) throw this.#end()
        if (isLate) throw new SimulatedAgentError(`no device list within ${ms} ms${hint()}`)
        await new Promise<void>((resolve) => {
          this.#wakers.add(resolve)
        })
      }
    } finally {
      over.abort()
    }
  }

  #wake(): void {
    for (const waker of this.#wakers) waker()
    this.#wakers.clear()
  }
}
