// For how long a record is true, and who may say that it no longer is (RFC 6762, sections 5.2, 10 and 10.4). Without any I/O.

/** Whatever a record says, it is asked for again after so long, in milliseconds. */
const MAX_TTL_MS = 2 * 60 * 60 * 1000
/** Records that are true for less are not asked for before they run out, in milliseconds. */
const MIN_REFRESHED_TTL_MS = 10_000
/** RFC 6762, section 5.2: when a record is asked for again, in parts of its time to live. */
const REFRESH_AT = [0.8, 0.85, 0.9, 0.95]
/** The same: by so much later, in parts of the time to live. */
const REFRESH_SPREAD = 0.02
/** RFC 6762, section 6: who answers says nothing twice in so long, in milliseconds. */
const REPEATED_AFTER_MS = 1000
/** When a record in doubt is asked for, in milliseconds. Each time has an answer, though none is given twice in a second. */
const RECONFIRM_AT_MS = [0, 1000, 2500]
/** When its sender has had his chances, in milliseconds: from then on others may say what takes its place. */
const OPEN_AFTER_MS = 2500
/** When it is over if nobody has said it, in milliseconds. RFC 6762, section 10.4, has ten seconds at most. */
const DOUBT_MS = 3500

export interface LeaseOptions {
  /** Who has said it. */
  readonly sender: string
  /** In seconds. */
  readonly ttl: number
  /** In milliseconds. */
  readonly now: number
  /** Of [0, 1): so that not all of a network ask at once. */
  readonly random: () => number
}

/**
 * What is true until a time. Only who has said it takes it back. Others can confirm it, or put it in doubt: then it is asked for,
 * and is over when nobody says it any more. Times in milliseconds.
 */
export class Lease {
  readonly #sender: string
  readonly #random: () => number
  #from: number
  #ttl: number
  #spread: number
  /** How often it was asked for again. */
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

  isOver(now: number): boolean {
    return this.end <= now
  }

  /** Whether it was not said lately. */
  isOlderThan(ms: number, now: number): boolean {
    return this.#heardAt < now - ms
  }

  /** Whether this sender may take it back, or say something else: who has said it, or anybody if that one is silent when asked. */
  isUpTo(sender: string, now: number): boolean {
    return (
      sender === this.#sender ||
      (this.#doubt !== undefined && this.#doubt.since + OPEN_AFTER_MS <= now)
    )
  }

  /** Another sender says the same. It is not true for less time by that. */
  confirm(ttl: number, now: number): void {
    this.#doubt = undefined
    this.#heardAt = now
    if (now + milliseconds(ttl) <= this.#from + this.#ttl) return
    this.#from = now
    this.#ttl = milliseconds(ttl)
    this.#spread = this.#random() * REFRESH_SPREAD
    this.#asked = 0
  }

  /** Another sender says otherwise. What has just been said is not asked for again: nobody would answer. */
  doubt(now: number): void {
    if (this.isOlderThan(REPEATED_AFTER_MS, now)) this.#doubt ??= { since: now, asked: 0 }
  }

  /** Whether nobody needs to say it again: more than half of its time is left. */
  isKnown(now: number): boolean {
    return this.#doubt === undefined && this.end - now > this.#ttl / 2
  }

  /** When it is to be asked for. */
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

  /** Whether it is to be asked for now. It counts as asked. */
  takeDue(now: number): boolean {
    if (this.dueAt > now) return false
    // What was missed meanwhile is not made up for.
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
