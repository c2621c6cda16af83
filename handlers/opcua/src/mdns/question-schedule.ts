// When to ask who is there at all (RFC 6762, section 5.2). Without any I/O.

/** How long after a question it is asked again; twice as long each time, in milliseconds. */
const ASK_AGAIN_MS = 1000
const ASK_AGAIN_CEILING_MS = 60 * 60 * 1000
/** Before the first question, so that machines that start together do not ask together, in milliseconds. */
const FIRST_QUESTION_MS = { least: 20, spread: 100 }

/** Questions with longer and longer waits, which can begin anew. Times in milliseconds. */
export class QuestionSchedule {
  readonly #random: () => number
  #dueAt = Number.POSITIVE_INFINITY
  #againMs = ASK_AGAIN_MS
  #askedAt = Number.NEGATIVE_INFINITY

  /** @param random of [0, 1) */
  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** When the next question is due; Infinity before it has begun. */
  get dueAt(): number {
    return this.#dueAt
  }

  /** Begins anew with the shortest wait. It never asks twice within that, however often it begins. */
  begin(now: number): void {
    const { least, spread } = FIRST_QUESTION_MS
    const soon = Math.max(now + least + this.#random() * spread, this.#askedAt + ASK_AGAIN_MS)
    this.#dueAt = Math.min(this.#dueAt, soon)
    this.#againMs = ASK_AGAIN_MS
  }

  /** Whether it is time to ask. It counts as asked. */
  takeDue(now: number): boolean {
    if (this.#dueAt > now) return false
    this.#askedAt = now
    this.#dueAt = now + this.#againMs
    this.#againMs = Math.min(this.#againMs * 2, ASK_AGAIN_CEILING_MS)
    return true
  }
}
