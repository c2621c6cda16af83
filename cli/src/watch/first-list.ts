import { type Clock, runAfter } from '@akrijs/runtime'
import { NoListError } from '../errors.js'

/** A person who sees nothing for so long wants to know what goes on, in milliseconds. */
const NOTE_MS = 10_000
/** The first list of ONVIF takes up to a minute: `discoveryTimeoutSeconds` of 60. */
const LIMIT_MS = 120_000

interface FirstListOptions {
  readonly clock: Clock
  /** Ends the wait. */
  readonly signal: AbortSignal
  /** Whether the wait has no limit. */
  readonly isEndless: boolean
  /** Takes what a person should know. */
  note(text: string): void
}

/** The wait for the first list of a handler, which may never come. */
export class FirstListWait {
  readonly #arrived = new AbortController()
  readonly #overdue = new AbortController()

  constructor({ clock, signal, isEndless, note }: FirstListOptions) {
    const waiting = AbortSignal.any([signal, this.#arrived.signal])
    const advice = isEndless
      ? 'still waiting'
      : `waiting ${(LIMIT_MS - NOTE_MS) / 1000} s more (--watch goes on)`
    runAfter(clock, NOTE_MS, waiting, () =>
      note(`no list yet: the handler has yielded nothing in ${NOTE_MS / 1000} s; ${advice}`),
    )
    if (!isEndless) runAfter(clock, LIMIT_MS, waiting, () => this.#overdue.abort())
  }

  /** Aborted when the list has not come within the limit. */
  get overdue(): AbortSignal {
    return this.#overdue.signal
  }

  /** Tells that the list has come. */
  end(): void {
    this.#arrived.abort()
  }

  /** The failure of an overdue list. */
  failure(): NoListError {
    return new NoListError(
      `no list in ${LIMIT_MS / 1000} s: the handler has yielded nothing; a handler yields an ` +
        'empty list while it has found no device',
    )
  }
}
