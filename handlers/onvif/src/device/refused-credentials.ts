import type { Clock } from '@akrijs/sdk'
import { FairQueue } from '@akrijs/sdk/network'
import type { Credential } from '../credentials.js'
import type { Destination } from '../network-policy.js'

interface Refusal {
  /** In monotonic milliseconds. */
  readonly at: number
  readonly wasDigest: boolean
}

interface RefusedCredentialsOptions {
  /** How long a refusal counts, in milliseconds. */
  readonly forMs: number
  readonly clock: Pick<Clock, 'monotonicMs'>
}

/** The limit of refusals; a new refusal then removes the oldest. */
const MAX_REFUSALS = 10_000

/**
 * The credentials that cameras refused lately. Cameras lock users out, and any host of the network
 * can make the handler query a camera again. A refusal counts for an address and port: a forged URL
 * or UUID does not help.
 */
export class RefusedCredentials {
  readonly #options: RefusedCredentialsOptions
  readonly #refusals = new Map<string, Refusal>()
  /** By credential and place. */
  readonly #attempts = new FairQueue({ perKey: 1 })

  constructor(options: RefusedCredentialsOptions) {
    this.#options = options
  }

  has(place: Destination, credential: Credential): boolean {
    const { clock, forMs } = this.#options
    const refusal = this.#refusals.get(keyOf(place, credential))
    return refusal !== undefined && clock.monotonicMs() - refusal.at < forMs
  }

  /**
   * Whether the next attempt should be a UsernameToken: the last refused attempt was an HTTP
   * digest. Some cameras ask for HTTP digest and accept UsernameToken only.
   */
  hasRefusedDigest(place: Destination, credential: Credential): boolean {
    return this.#refusals.get(keyOf(place, credential))?.wasDigest ?? false
  }

  /**
   * Runs attempts with the same credential and place in turn, so that each attempt knows the result
   * of the first.
   */
  inTurn<T>(place: Destination, credential: Credential, attempt: () => Promise<T>): Promise<T> {
    return this.#attempts.run(keyOf(place, credential), attempt)
  }

  add(place: Destination, credential: Credential, wasDigest: boolean): void {
    const key = keyOf(place, credential)
    this.#refusals.delete(key)
    this.#refusals.set(key, { at: this.#options.clock.monotonicMs(), wasDigest })
    const [oldest] = this.#refusals.keys()
    if (this.#refusals.size > MAX_REFUSALS && oldest !== undefined) this.#refusals.delete(oldest)
  }
}

function keyOf({ url, address }: Destination, { username, password }: Credential): string {
  return JSON.stringify([address, url.port || url.protocol, username, password])
}
