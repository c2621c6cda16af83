// The times of queries for all services (RFC 6762, section 5.2). Pure.

/** The first wait between queries; each wait is twice as long, in milliseconds. */
const FIRST_WAIT_MS = 1000
const MAX_WAIT_MS = 60 * 60 * 1000
/**
 * The random wait before the first query, so that machines that start together do not send
 * together, in milliseconds.
 */
const START_MS = { minimum: 20, spread: 100 }

/** Queries with increasing waits. Times are in milliseconds. */
export class QuestionSchedule {
  readonly #random: () => number
  #dueAt = Number.POSITIVE_INFINITY
  #waitMs = FIRST_WAIT_MS
  #sentAt = Number.NEGATIVE_INFINITY

  /** @param random returns a number of [0, 1) */
  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** The time of the next query; Infinity before the first call of `begin`. */
  get dueAt(): number {
    return this.#dueAt
  }

  /** Restarts with the shortest wait. Repeated calls never cause two queries within that wait. */
  begin(now: number): void {
    const { minimum, spread } = START_MS
    const soon = Math.max(now + minimum + this.#random() * spread, this.#sentAt + FIRST_WAIT_MS)
    this.#dueAt = Math.min(this.#dueAt, soon)
    this.#waitMs = FIRST_WAIT_MS
  }

  /** Whether a query is due now. The caller must send the query. */
  takeDue(now: number): boolean {
    if (this.#dueAt > now) return false
    this.#sentAt = now
    this.#dueAt = now + this.#waitMs
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_WAIT_MS)
    return true
  }
}
