import { EventEmitter, once } from 'node:events'

/** Open sessions of all Configurations: many servers accept only a few clients at a time. */
const MAX_SESSIONS = 4

/** The places for sessions that all Configurations share: each server has one at a time. */
export class SessionPlaces {
  readonly #taken = new Set<string>()
  readonly #left = new EventEmitter().setMaxListeners(0)

  /**
   * Runs a session with a server when there is a place for it.
   * @throws the reason of the signal, or an AbortError, if the signal is aborted before
   */
  async run<T>(url: string, session: () => Promise<T>, signal: AbortSignal): Promise<T> {
    while (this.#taken.has(url) || this.#taken.size >= MAX_SESSIONS)
      await once(this.#left, 'place', { signal })
    signal.throwIfAborted()
    this.#taken.add(url)
    try {
      return await session()
    } finally {
      this.#taken.delete(url)
      this.#left.emit('place')
    }
  }
}
