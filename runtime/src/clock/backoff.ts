interface BackoffOptions {
  /** The first wait, in milliseconds. @default 1000 */
  readonly initialMs?: number
  /** The longest wait, in milliseconds. @default 30000 */
  readonly ceilingMs?: number
  /**
   * Of [0, 1): shortens each wait by up to half, so that programs which failed together do not
   * retry together.
   * @default Math.random
   */
  readonly random?: () => number
}

/** The waits before the retries, in milliseconds, without an end. Each is twice the wait before. */
export function* backoff(options: BackoffOptions = {}): Generator<number, never, void> {
  const { initialMs = 1000, ceilingMs = 30_000, random = Math.random } = options
  let wait = Math.min(initialMs, ceilingMs)
  for (;;) {
    yield Math.round(wait * (1 - random() / 2))
    wait = Math.min(wait * 2, ceilingMs)
  }
}

/** A schedule of retries that begins again after a success. */
export class Backoff {
  readonly #options: BackoffOptions
  #waits: Generator<number, never, void>

  constructor(options: BackoffOptions = {}) {
    this.#options = options
    this.#waits = backoff(options)
  }

  /** The next wait, in milliseconds. */
  next(): number {
    return this.#waits.next().value
  }

  reset(): void {
    this.#waits = backoff(this.#options)
  }
}
