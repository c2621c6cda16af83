import { FairQueue } from '@akrijs/sdk/network'
import { QUERIES, QUERIES_AFTER_HELLO } from '../limits.js'

/**
 * Runs queries in turn. A query of a dead camera keeps its place for seconds, and after a power cut
 * there may be many: some places are reserved for queries that are hastened.
 */
export class QueryQueue {
  readonly #all = new FairQueue(QUERIES)
  readonly #hastened = new FairQueue(QUERIES_AFTER_HELLO)
  /** Makes a waiting query take the first free place of both queues, by its id. */
  readonly #waiting = new Map<string, () => void>()

  /**
   * @param id of the query; no other query with this id may wait
   * @param source the address that announced the camera
   * @param query must not reject
   */
  run(id: string, source: string, query: () => Promise<void>): void {
    const started = new AbortController()
    const start = () => {
      this.#waiting.delete(id)
      // Takes the query out of the other queue.
      started.abort()
      return query()
    }
    const enter = (queue: FairQueue) => {
      queue.run(source, start, started.signal).catch((error: unknown) => {
        if (error !== started.signal.reason) throw error
      })
    }
    this.#waiting.set(id, () => enter(this.#hastened))
    enter(this.#all)
  }

  /** Lets a query take a reserved place, if it still waits. */
  hasten(id: string): void {
    const enterReserved = this.#waiting.get(id)
    this.#waiting.delete(id)
    enterReserved?.()
  }

  /** Resolves when no query runs and no query waits. */
  async idle(): Promise<void> {
    await this.#all.idle()
    await this.#hastened.idle()
  }
}
