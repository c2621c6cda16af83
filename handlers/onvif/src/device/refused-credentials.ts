import type { Clock } from '@akrijs/sdk'
import { FairQueue } from '@akrijs/sdk/network'
import type { Credential } from '../credentials.js'
import type { Destination } from '../network-policy.js'

/**
 * How a credential was tried: by HTTP digest, or by a UsernameToken with the time of the machine or
 * of GetSystemDateAndTime, or with that of the header `Date`.
 */
export type CredentialScheme = 'digest' | 'token' | 'dated-token'

interface Attempt {
  /** In monotonic milliseconds. */
  readonly at: number
  /** The credential is not tried again before this time is over, in milliseconds. */
  readonly waitMs: number
  /** False if the camera was too busy to check the credential, or accepted the credential. */
  readonly isRefused: boolean
  /** The scheme of the last refused attempt. */
  readonly refusedScheme: CredentialScheme | undefined
}

interface RefusedCredentialsOptions {
  /** How long a refusal counts, in milliseconds. */
  readonly forMs: number
  readonly clock: Pick<Clock, 'monotonicMs'>
}

/** The limit of remembered attempts; a new attempt then removes the oldest. */
const MAX_ATTEMPTS = 10_000
/** The wait after the first answer of a busy camera, in milliseconds. */
const FIRST_WAIT_MS = 30_000

/**
 * The credentials that cameras refused lately. Cameras lock users out, and any host of the network
 * can make the handler query a camera again. A refusal counts for an address and port: a forged URL
 * or UUID does not help.
 */
export class RefusedCredentials {
  readonly #options: RefusedCredentialsOptions
  readonly #attempts = new Map<string, Attempt>()
  /** By credential and place. */
  readonly #turns = new FairQueue({ perKey: 1 })

  constructor(options: RefusedCredentialsOptions) {
    this.#options = options
  }

  has(place: Destination, credential: Credential): boolean {
    return this.#waitingAt(place, credential)?.isRefused === true
  }

  /** Whether the credential waits because the camera was too busy to check it. */
  isPostponed(place: Destination, credential: Credential): boolean {
    return this.#waitingAt(place, credential)?.isRefused === false
  }

  /**
   * The scheme of the last refused attempt. The next attempt should have another: some cameras ask
   * for HTTP digest and accept UsernameToken only, and some have a wrong header `Date`.
   */
  refusedScheme(place: Destination, credential: Credential): CredentialScheme | undefined {
    return this.#attempts.get(keyOf(place, credential))?.refusedScheme
  }

  /**
   * Runs attempts with the same credential and place in turn, so that each attempt knows the result
   * of the first.
   */
  inTurn<T>(place: Destination, credential: Credential, attempt: () => Promise<T>): Promise<T> {
    return this.#turns.run(keyOf(place, credential), attempt)
  }

  add(place: Destination, credential: Credential, refusedScheme: CredentialScheme): void {
    this.#set(place, credential, { waitMs: this.#options.forMs, isRefused: true, refusedScheme })
  }

  /**
   * The camera was too busy to check the credential. Each further time doubles the wait. A wait as
   * long as that of a refusal is one: the camera may say so to a user that it has locked out.
   */
  postpone(place: Destination, credential: Credential): void {
    const { forMs } = this.#options
    const { waitMs: before = 0, refusedScheme } = this.#attempts.get(keyOf(place, credential)) ?? {}
    const waitMs = Math.min(Math.max(2 * before, FIRST_WAIT_MS), forMs)
    this.#set(place, credential, { waitMs, isRefused: waitMs === forMs, refusedScheme })
  }

  accept(place: Destination, credential: Credential): void {
    const before = this.#attempts.get(keyOf(place, credential))
    if (before !== undefined)
      this.#set(place, credential, { ...before, waitMs: 0, isRefused: false })
  }

  #waitingAt(place: Destination, credential: Credential): Attempt | undefined {
    const attempt = this.#attempts.get(keyOf(place, credential))
    const isOver =
      attempt === undefined || this.#options.clock.monotonicMs() - attempt.at >= attempt.waitMs
    return isOver ? undefined : attempt
  }

  #set(place: Destination, credential: Credential, attempt: Omit<Attempt, 'at'>): void {
    const key = keyOf(place, credential)
    this.#attempts.delete(key)
    this.#attempts.set(key, { ...attempt, at: this.#options.clock.monotonicMs() })
    const [oldest] = this.#attempts.keys()
    if (this.#attempts.size > MAX_ATTEMPTS && oldest !== undefined) this.#attempts.delete(oldest)
  }
}

function keyOf({ url, address }: Destination, { username, password }: Credential): string {
  return JSON.stringify([address, url.port || url.protocol, username, password])
}
