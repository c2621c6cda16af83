import type { Clock } from '../clock/clock.js'

/** A verdict on the program: undefined, or what is wrong with it. */
type Verdict = string | undefined

/** The time between the starts of two checks, in milliseconds. Meanwhile the verdict answers. */
const CHECK_PAUSE_MS = 100
/**
 * How long an answer waits for its check, in milliseconds. A check takes several turns of the event
 * loop: while the program is busy, each turn is as long as its work.
 */
const CHECK_WAIT_MS = 5
/**
 * The age up to which a good verdict answers in place of a check that takes longer, in
 * milliseconds. The kubelet asks each 10 s: a check that hangs shows in its next probe.
 */
const VERDICT_MS = 15_000

interface Finished {
  /** Rejects if the check failed. */
  readonly verdict: Promise<Verdict>
  readonly isGood: boolean
  readonly atMs: number
}

/**
 * The health of a program, for probes. Many probes at once cost one check, and a busy program
 * answers as soon as its event loop turns: with the last good verdict, if that is recent.
 */
export class HealthCheck {
  readonly #clock: Clock
  readonly #check: () => Promise<Verdict>
  #underWay: Promise<Verdict> | undefined
  #begunAt = -Infinity
  #last: Finished | undefined

  constructor(clock: Clock, check: () => Promise<Verdict>) {
    this.#clock = clock
    this.#check = check
  }

  /** @throws the error of the check */
  verdict(): Promise<Verdict> {
    const now = this.#clock.monotonicMs()
    const last = this.#last
    if (this.#underWay === undefined && last && now < this.#begunAt + CHECK_PAUSE_MS)
      return last.verdict
    this.#underWay ??= this.#begin(now)
    const underWay = this.#underWay
    if (!last?.isGood || now >= last.atMs + VERDICT_MS) return underWay
    return this.#withinWait(underWay, last.verdict)
  }

  #begin(now: number): Promise<Verdict> {
    this.#begunAt = now
    const verdict = this.#check()
    const finish = (isGood: boolean) => {
      this.#underWay = undefined
      this.#last = { verdict, isGood, atMs: this.#clock.monotonicMs() }
    }
    verdict.then(
      (problem) => finish(problem === undefined),
      () => finish(false),
    )
    return verdict
  }

  async #withinWait(underWay: Promise<Verdict>, last: Promise<Verdict>): Promise<Verdict> {
    const answered = new AbortController()
    const late = this.#clock.sleep(CHECK_WAIT_MS, answered.signal).then(
      () => last,
      () => last,
    )
    try {
      return await Promise.race([underWay, late])
    } finally {
      answered.abort()
    }
  }
}
