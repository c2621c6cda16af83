import { setMaxListeners } from 'node:events'
import { type Clock, systemClock } from '@akrijs/sdk'
import { CALL_MS } from '../ua-tcp/index.js'
import type { DiscoveryUrl, DiscoveryUrlOptions } from './discovery-url.js'

/** A call needs a socket, and memory for its answer. */
const MAX_PARALLEL_ROUNDS = 64
/** How much longer than a call a list waits, in milliseconds. */
const MARGIN_MS = 1000

type Round = Pick<DiscoveryUrl, 'round' | 'isFailing'>

interface BackgroundRoundsOptions extends Pick<DiscoveryUrlOptions, 'timeouts'> {
  readonly signal: AbortSignal
}

/**
 * Rounds of discovery URLs that continue while lists are made: a silent URL delays neither the
 * lists nor the rounds of other URLs. Each URL has one round at a time. URLs that do not fail come
 * first.
 */
export class BackgroundRounds implements AsyncDisposable {
  readonly #waitMs: number
  readonly #clock: Clock
  readonly #end = new AbortController()
  readonly #signal: AbortSignal
  readonly #waiting = new Set<Round>()
  readonly #running = new Map<Round, Promise<void>>()
  #failure: { readonly error: unknown } | undefined

  constructor({ signal, timeouts }: BackgroundRoundsOptions) {
    this.#waitMs = (timeouts?.totalMs ?? CALL_MS) + MARGIN_MS
    this.#clock = timeouts?.clock ?? systemClock
    this.#signal = AbortSignal.any([signal, this.#end.signal])
    // Each parallel call adds a listener.
    setMaxListeners(0, this.#signal)
  }

  /** Begins a round of each URL, except of those whose round has not ended. */
  start(urls: Iterable<Round>): void {
    for (const url of urls) if (!this.#running.has(url)) this.#waiting.add(url)
    this.#fill()
  }

  /** Forgets a round that has not begun. */
  cancel(url: Round): void {
    this.#waiting.delete(url)
  }

  /**
   * Waits for the end of all rounds. A little longer than a call takes, it is enough that
   * `isEnough` is true.
   * @throws the first error of a round; the reason of the signal if it interrupts a round
   */
  async wait(isEnough: () => boolean = () => true): Promise<void> {
    const over = new AbortController()
    let isLate = false
    // The calls have limits of the same clock.
    const late = this.#clock.sleep(this.#waitMs, over.signal).then(
      () => {
        isLate = true
      },
      () => undefined,
    )
    while (this.#running.size > 0 && this.#failure === undefined && !(isLate && isEnough()))
      await Promise.race([...(isLate ? [] : [late]), ...this.#running.values()])
    over.abort()
    if (this.#failure !== undefined) throw this.#failure.error
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort()
    await Promise.all(this.#running.values())
  }

  #fill(): void {
    while (this.#running.size < MAX_PARALLEL_ROUNDS && !this.#signal.aborted) {
      const url = this.#next()
      if (url === undefined) return
      this.#waiting.delete(url)
      this.#running.set(url, this.#run(url))
    }
  }

  #next(): Round | undefined {
    for (const url of this.#waiting) if (!url.isFailing) return url
    const [url] = this.#waiting
    return url
  }

  async #run(url: Round): Promise<void> {
    try {
      await url.round(this.#signal)
    } catch (error) {
      this.#failure ??= { error }
    }
    this.#running.delete(url)
    this.#fill()
  }
}
