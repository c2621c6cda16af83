// The validity of a record, and who may change it (RFC 6762, sections 5.2 and 10). Pure.

/** The longest validity, whatever TTL a record has, in milliseconds. */
const MAX_TTL_MS = 2 * 60 * 60 * 1000
/** Records with a shorter TTL expire without a refresh, in milliseconds. */
const MIN_REFRESHED_TTL_MS = 10_000
/** RFC 6762, section 5.2: the times of refresh queries, as fractions of the TTL. */
const REFRESH_AT = [0.8, 0.85, 0.9, 0.95]
/** RFC 6762, section 5.2: the random delay of a refresh query, as a fraction of the TTL. */
const REFRESH_SPREAD = 0.02
/**
 * The number of refresh queries after which another sender may change a record: one answer can be
 * lost. So a host that got another address is called there before its old address expires.
 */
const CHANGED_AFTER = 2

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
 * The time for which a record is valid. Only its sender may change or withdraw it; any sender can
 * confirm it. Times are in milliseconds.
 */
export class Lease {
  readonly #sender: string
  readonly #random: () => number
  #from: number
  #ttl: number
  #spread: number
  /** The number of refresh queries. */
  #asked = 0

  constructor({ sender, ttl, now, random }: LeaseOptions) {
    this.#sender = sender
    this.#random = random
    this.#from = now
    this.#ttl = milliseconds(ttl)
    this.#spread = random() * REFRESH_SPREAD
  }

  get end(): number {
    return this.#from + this.#ttl
  }

  isExpired(now: number): boolean {
    return this.end <= now
  }

  /** Whether the record arrived before the last `ms`. */
  isOlderThan(ms: number, now: number): boolean {
    return this.#from < now - ms
  }

  /**
   * Whether a sender may withdraw or change the record: its own sender, or any sender after the own
   * sender did not answer refresh queries.
   */
  mayChange(sender: string): boolean {
    return sender === this.#sender || this.#asked >= CHANGED_AFTER
  }

  /** Another sender sent the same record. This never shortens the validity. */
  confirm(ttl: number, now: number): void {
    if (now + milliseconds(ttl) <= this.end) return
    this.#from = now
    this.#ttl = milliseconds(ttl)
    this.#spread = this.#random() * REFRESH_SPREAD
    this.#asked = 0
  }

  /** Whether a query may list the record as known: more than half of its validity is left. */
  isKnown(now: number): boolean {
    return this.end - now > this.#ttl / 2
  }

  /** The time of the next refresh query. */
  get dueAt(): number {
    const part = this.#ttl < MIN_REFRESHED_TTL_MS ? undefined : REFRESH_AT[this.#asked]
    return part === undefined
      ? Number.POSITIVE_INFINITY
      : this.#from + this.#ttl * (part + this.#spread)
  }

  /** Whether a query is due now. The caller must send the query. */
  takeDue(now: number): boolean {
    if (this.dueAt > now) return false
    // Missed queries are not sent later.
    while (this.dueAt <= now) this.#asked++
    return true
  }
}

function milliseconds(ttlSeconds: number): number {
  return Math.min(ttlSeconds * 1000, MAX_TTL_MS)
}
