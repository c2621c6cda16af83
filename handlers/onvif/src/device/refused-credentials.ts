import type { Clock } from '@akrijs/sdk'
import type { Credential } from '../credentials.js'
import type { Destination } from '../network-policy.js'

export interface RefusedCredentialsOptions {
  /** For how long a refusal counts, in milliseconds. */
  readonly forMs: number
  readonly clock: Pick<Clock, 'monotonicMs'>
}

/** More are forgotten, the oldest first. */
const MAX_REMEMBERED = 10_000

/**
 * Which credential was refused where, lately: cameras lock users out, and anybody can make us ask a camera again. It counts for
 * an address and a port, whatever URL and UUID somebody makes up for them.
 */
export class RefusedCredentials {
  readonly #options: RefusedCredentialsOptions
  readonly #refusedAt = new Map<string, number>()
  /** The last attempt of those that are under way, or wait for each other. */
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(options: RefusedCredentialsOptions) {
    this.#options = options
  }

  has(place: Destination, credential: Credential): boolean {
    const { clock, forMs } = this.#options
    const age =
      clock.monotonicMs() -
      (this.#refusedAt.get(keyOf(place, credential)) ?? Number.NEGATIVE_INFINITY)
    // One of the future is of a clock that was put back since.
    return age >= 0 && age < forMs
  }

  /** Attempts with one credential at one place, one after the other: so all but the first know what became of it. */
  async oneByOne<T>(
    place: Destination,
    credential: Credential,
    attempt: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf(place, credential)
    const before = this.#last.get(key)
    const run = before === undefined ? attempt() : before.then(attempt, attempt)
    this.#last.set(key, run)
    try {
      return await run
    } finally {
      if (this.#last.get(key) === run) this.#last.delete(key)
    }
  }

  add(place: Destination, credential: Credential): void {
    const key = keyOf(place, credential)
    this.#refusedAt.delete(key)
    this.#refusedAt.set(key, this.#options.clock.monotonicMs())
    const [oldest] = this.#refusedAt.keys()
    if (this.#refusedAt.size > MAX_REMEMBERED && oldest !== undefined)
      this.#refusedAt.delete(oldest)
  }
}

function keyOf({ url, address }: Destination, { username, password }: Credential): string {
  return JSON.stringify([address, url.port || url.protocol, username, password])
}
