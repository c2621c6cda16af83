/** Options of {@link SourceLimit}. */
export interface SourceLimitOptions {
  /** The amount that one address may take in a round. */
  readonly perSource: number
  /** The amount that all addresses may take in a second: it bounds work, and memory too. */
  readonly perSecond: number
  /** The length of a round, in milliseconds. @default 1000 */
  readonly roundMs?: number
  /**
   * The amount that an address may take in each round in any case, such as that of a known device.
   * It does not count for `perSecond`. @default 0
   */
  readonly reservedFor?: (source: string) => number
}

/**
 * Limits the work that addresses of a network cause. A flood from one address excludes only that
 * address. A flood from many addresses excludes new addresses, and none with a reserved amount.
 *
 * @example
 * const limit = new SourceLimit({ perSource: 100, perSecond: 500 })
 * const onDatagram = ({ bytes, address }: Datagram) => {
 *   if (limit.take(address, 1, systemClock.monotonicMs())) read(bytes)
 * }
 */
export class SourceLimit {
  readonly #options: Required<SourceLimitOptions>
  /** The amount that each address has taken in this round. */
  readonly #taken = new Map<string, number>()
  #left = 0
  #second = Number.NaN
  #round = Number.NaN

  constructor(options: SourceLimitOptions) {
    this.#options = { roundMs: 1000, reservedFor: () => 0, ...options }
  }

  /**
   * Takes the whole amount, or nothing.
   * @param now in milliseconds
   * @returns whether the amount was taken
   */
  take(source: string, amount: number, now: number): boolean {
    const { perSource, reservedFor } = this.#options
    this.#advance(now)
    const taken = (this.#taken.get(source) ?? 0) + amount
    if (taken > reservedFor(source)) {
      if (taken > perSource || amount > this.#left) return false
      this.#left -= amount
    }
    this.#taken.set(source, taken)
    return true
  }

  #advance(now: number): void {
    const { perSecond, roundMs } = this.#options
    const second = Math.floor(now / 1000)
    const round = Math.floor(now / roundMs)
    if (second !== this.#second) this.#left = perSecond
    if (round !== this.#round) this.#taken.clear()
    this.#second = second
    this.#round = round
  }
}
