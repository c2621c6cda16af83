import type { Clock } from '@akrijs/sdk'
import type { Credential } from '../credentials.js'
import type { Destination } from '../network-policy.js'

/**
 * How a credential was tried: by HTTP digest, or by a UsernameToken with the time that the camera
 * tells, with that of its header `Date`, or with that of the machine.
 */
export type CredentialScheme = 'digest' | 'told' | 'date' | 'machine'

interface Attempt {
  /** In monotonic milliseconds. */
  readonly at: number
  /** How long the result counts, in milliseconds. */
  readonly waitMs: number
  /**
   * `busy`: the camera was too busy to check the credential. `unclear`: an answer that says nothing
   * about the credential.
   */
  readonly result: 'refused' | 'busy' | 'unclear' | 'accepted'
  /** The number of answers that said nothing about the credential. */
  readonly unclear?: number
  /** The schemes of refused attempts. */
  readonly refusedSchemes: readonly CredentialScheme[]
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
 * Cameras lock a user out after five wrong passwords or more, and an answer that says nothing about
 * the credential may be such a refusal. So many of them end the attempts: by calls that ask for a
 * credential, and by calls that fail in any case, which should not use up the attempts of others.
 */
const MAX_UNCLEAR = { asked: 4, unasked: 2 } as const

/**
 * The credentials that cameras refused lately. Cameras lock users out, and any host of the network
 * can make the handler query a camera again. A refusal counts for an address and port: a forged URL
 * or UUID does not help.
 */
export class RefusedCredentials {
  readonly #options: RefusedCredentialsOptions
  readonly #attempts = new Map<string, Attempt>()
  /** The last attempt with each credential at each place. */
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(options: RefusedCredentialsOptions) {
    this.#options = options
  }

  has(place: Destination, credential: Credential): boolean {
    return this.#waitingAt(place, credential)?.result === 'refused'
  }

  /** Whether the credential waits because the camera was too busy to check it. */
  isPostponed(place: Destination, credential: Credential): boolean {
    return this.#waitingAt(place, credential)?.result === 'busy'
  }

  /**
   * Whether too many answers said nothing about the credential.
   * @param asks whether the camera asks for a credential
   */
  isUnclear(place: Destination, credential: Credential, asks: boolean): boolean {
    const { unclear = 0 } = this.#waitingAt(place, credential) ?? {}
    return unclear >= MAX_UNCLEAR[asks ? 'asked' : 'unasked']
  }

  /**
   * The schemes of refused attempts. The next attempt should have another: some cameras ask for
   * HTTP digest and accept UsernameToken only, and some tell a wrong time.
   */
  refusedSchemes(place: Destination, credential: Credential): readonly CredentialScheme[] {
    return this.#attempts.get(keyOf(place, credential))?.refusedSchemes ?? []
  }

  /**
   * Runs attempts with the same credential and place in turn, so that each attempt knows the result
   * of the first.
   */
  async inTurn<T>(
    place: Destination,
    credential: Credential,
    attempt: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf(place, credential)
    const before = this.#turns.get(key) ?? Promise.resolve()
    const turn = before.catch(() => undefined).then(attempt)
    this.#turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(key) === turn) this.#turns.delete(key)
    }
  }

  /** @param scheme undefined if all schemes are refused: the next attempt may have any */
  add(place: Destination, credential: Credential, scheme: CredentialScheme | undefined): void {
    const before = this.refusedSchemes(place, credential)
    const refusedSchemes = scheme === undefined ? [] : [...before, scheme]
    this.#set(place, credential, { waitMs: this.#options.forMs, result: 'refused', refusedSchemes })
  }

  /** An answer said nothing about the credential: the operation may be broken. */
  addUnclear(place: Destination, credential: Credential): void {
    const { unclear = 0 } = this.#waitingAt(place, credential) ?? {}
    this.#set(place, credential, {
      waitMs: this.#options.forMs,
      result: 'unclear',
      unclear: unclear + 1,
      refusedSchemes: this.refusedSchemes(place, credential),
    })
  }

  /**
   * The camera was too busy to check the credential. Each further time doubles the wait. A wait as
   * long as that of a refusal is one: the camera may say so to a user that it has locked out.
   */
  postpone(place: Destination, credential: Credential): void {
    const { forMs } = this.#options
    const before = this.#attempts.get(keyOf(place, credential))
    const wait = before === undefined || before.result === 'unclear' ? 0 : before.waitMs
    const waitMs = Math.min(Math.max(2 * wait, FIRST_WAIT_MS), forMs)
    const result = waitMs === forMs ? 'refused' : 'busy'
    this.#set(place, credential, { waitMs, result, refusedSchemes: before?.refusedSchemes ?? [] })
  }

  accept(place: Destination, credential: Credential): void {
    const before = this.#attempts.get(keyOf(place, credential))
    if (before === undefined) return
    const { refusedSchemes } = before
    this.#set(place, credential, { waitMs: 0, result: 'accepted', refusedSchemes })
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
