// The validity of a record, and who may change it (RFC 6762, sections 5.2, 10 and 10.4). Pure.

/** The longest validity, whatever TTL a record has, in milliseconds. */
const MAX_TTL_MS = 2 * 60 * 60 * 1000
/** Records with a shorter TTL expire without a refresh, in milliseconds. */
const MIN_REFRESHED_TTL_MS = 10_000
/** RFC 6762, section 5.2: the times of refresh queries, as fractions of the TTL. */
const REFRESH_AT = [0.8, 0.85, 0.9, 0.95]
/** RFC 6762, section 5.2: the random delay of a refresh query, as a fraction of the TTL. */
const REFRESH_SPREAD = 0.02
/** RFC 6762, section 6: a sender does not repeat an answer sooner, in milliseconds. */
const REPEATED_AFTER_MS = 1000
/**
 * The times of queries for a record in doubt, in milliseconds: each query can be answered, although
 * a sender does not repeat an answer within a second.
 */
const RECONFIRM_AT_MS = [0, 1000, 2500]
/** The time after which other senders may replace a record in doubt, in milliseconds. */
const OPEN_AFTER_MS = 2500
/**
 * The time after which an unconfirmed record in doubt expires, in milliseconds. RFC 6762, section
 * 10.4, allows at most ten seconds.
 */
const DOUBT_MS = 3500

interface LeaseOptions {
  /** The address that sent the record. */
  readonly sender: string
  /** The time to live, in seconds. */
  readonly ttl: number
  /** The current time, in milliseconds. */
  readonly now: number
  /** Returns a number of [0, 1), so that the machines of a network do not all send at once. */
  readonly random: () => number
}

/**
 * The time for which a record is valid. Only its sender may withdraw the record. Other senders can
 * confirm it or put it in doubt. A record in doubt is queried, and expires if no sender confirms
 * it. Times are in milliseconds.
 */
export class Lease {
  readonly #sender: string
  readonly #random: () => number
  #from: number
  #ttl: number
  #spread: number
  /** The number of refresh queries. */
  #asked = 0
  #heardAt: number
  #doubt: { readonly since: number; asked: number } | undefined

  constructor({ sender, ttl, now, random }: LeaseOptions) {
    this.#sender = sender
    this.#random = random
    this.#heardAt = now
    this.#from = now
    this.#ttl = milliseconds(ttl)
    this.#spread = random() * REFRESH_SPREAD
  }

  get end(): number {
    const end = this.#from + this.#ttl
    return this.#doubt === undefined ? end : Math.min(end, this.#doubt.since + DOUBT_MS)
  }

  isExpired(now: number): boolean {
    return this.end <= now
  }

  /** Whether the last confirmation is older than `ms`. */
  isOlderThan(ms: number, now: number): boolean {
    return this.#heardAt < now - ms
  }

  /**
   * Whether a sender may withdraw or change the record: its own sender, or any sender after the own
   * sender did not answer while the record was in doubt.
   */
  mayChange(sender: string, now: number): boolean {
    return (
      sender === this.#sender ||
      (this.#doubt !== undefined && this.#doubt.since + OPEN_AFTER_MS <= now)
    )
  }

  /** Another sender sent the same record. This never shortens the validity. */
  confirm(ttl: number, now: number): void {
    this.#doubt = undefined
    this.#heardAt = now
    if (now + milliseconds(ttl) <= this.#from + this.#ttl) return
    this.#from = now
    this.#ttl = milliseconds(ttl)
    this.#spread = this.#random() * REFRESH_SPREAD
    this.#asked = 0
  }

  /**
   * Another sender contradicts the record. A record that just arrived is not queried: no sender
   * would answer.
   */
  doubt(now: number): void {
    if (this.isOlderThan(REPEATED_AFTER_MS, now)) this.#doubt ??= { since: now, asked: 0 }
  }

  /** Whether a query may list the record as known: more than half of its validity is left. */
  isKnown(now: number): boolean {
    return this.#doubt === undefined && this.end - now > this.#ttl / 2
  }

  /** The time of the next query. */
  get dueAt(): number {
    const part = this.#ttl < MIN_REFRESHED_TTL_MS ? undefined : REFRESH_AT[this.#asked]
    const refresh =
      part === undefined ? Number.POSITIVE_INFINITY : this.#from + this.#ttl * (part + this.#spread)
    return Math.min(refresh, this.#reconfirmAt)
  }

  get #reconfirmAt(): number {
    const { since, asked } = this.#doubt ?? { since: 0, asked: RECONFIRM_AT_MS.length }
    return since + (RECONFIRM_AT_MS[asked] ?? Number.POSITIVE_INFINITY)
  }

  /** Whether a query is due now. The caller must send the query. */
  takeDue(now: number): boolean {
    if (this.dueAt > now) return false
    // Missed queries are not sent later.
    while (this.dueAt <= now) {
      if (this.#doubt !== undefined && this.#reconfirmAt <= now) this.#doubt.asked++
      else this.#asked++
    }
    return true
  }
}

function milliseconds(ttlSeconds: number): number {
  return Math.min(ttlSeconds * 1000, MAX_TTL_MS)
}
