import { isIPv6 } from 'node:net'

/** Options of {@link SenderBudget}. */
export interface SenderBudgetOptions {
  /** The amount that one sender may take in a round. */
  readonly perSender: number
  /** The amount that all senders of a pool may take in a second. @default no limit */
  readonly perSecond?: number
  /** The number of senders in a pool that are told apart in a round. @default `perSecond` */
  readonly senders?: number
  /**
   * The amount that a sender may take in each round in any case. It counts for no other limit.
   * @default 0
   */
  readonly reservedFor?: (sender: string) => number
  /**
   * The pools: `family` keeps senders with IPv4 and IPv6 addresses apart. A host has thousands of
   * IPv6 addresses, and takes nothing from senders with IPv4 by these. @default 'all'
   */
  readonly pool?: 'all' | 'family'
  /**
   * When a round ends: after each second, or by {@link SenderBudget.renew} alone.
   * @default 'second'
   */
  readonly round?: 'second' | 'renewed'
}

/** The number of refused requests. */
export interface Refusals {
  /** The sender had taken its own amount. */
  ofOneSender: number
  /** The amount of all senders was taken. */
  ofAll: number
}

interface Pool {
  readonly senders: Set<string>
  left: number
}

/**
 * Gives each sender the same amount. A sender that floods the network excludes only itself, and no
 * sender with a reserved amount. Memory is bounded by the number of senders that are told apart.
 * Times are in milliseconds.
 */
export class SenderBudget {
  readonly #options: Required<SenderBudgetOptions>
  readonly #taken = new Map<string, number>()
  readonly #pools = new Map<string, Pool>()
  #second = Number.NaN
  #refusals: Refusals = { ofOneSender: 0, ofAll: 0 }

  constructor(options: SenderBudgetOptions) {
    const { perSecond = Number.POSITIVE_INFINITY } = options
    this.#options = {
      ...{ perSecond, senders: perSecond, reservedFor: () => 0, pool: 'all', round: 'second' },
      ...options,
    }
  }

  /** Whether {@link take} would succeed. */
  has(sender: string, amount: number, now: number): boolean {
    return this.#refusal(sender, amount, now) === undefined
  }

  /** Takes the whole amount, or nothing. @returns whether the amount was taken */
  take(sender: string, amount: number, now: number): boolean {
    const refusal = this.#refusal(sender, amount, now)
    if (refusal !== undefined) {
      this.#refusals[refusal]++
      return false
    }
    const taken = this.#takenBy(sender) + amount
    this.#taken.set(sender, taken)
    if (taken > this.#options.reservedFor(sender)) {
      const pool = this.#poolOf(sender)
      pool.senders.add(sender)
      pool.left -= amount
    }
    return true
  }

  /** Begins a round. @returns the refusals of the last round */
  renew(): Refusals {
    const refusals = this.#refusals
    this.#refusals = { ofOneSender: 0, ofAll: 0 }
    this.#taken.clear()
    for (const { senders } of this.#pools.values()) senders.clear()
    return refusals
  }

  #refusal(sender: string, amount: number, now: number): keyof Refusals | undefined {
    const { perSender, senders, reservedFor } = this.#options
    this.#beginSecond(Math.floor(now / 1000))
    const taken = this.#takenBy(sender) + amount
    const reserved = reservedFor(sender)
    if (taken > Math.max(perSender, reserved)) return 'ofOneSender'
    if (taken <= reserved) return undefined
    const pool = this.#poolOf(sender)
    const isFull = !pool.senders.has(sender) && pool.senders.size >= senders
    return amount > pool.left || isFull ? 'ofAll' : undefined
  }

  #beginSecond(second: number): void {
    if (second === this.#second) return
    this.#second = second
    for (const pool of this.#pools.values()) pool.left = this.#options.perSecond
    if (this.#options.round === 'second') this.renew()
  }

  #takenBy(sender: string): number {
    return this.#taken.get(sender) ?? 0
  }

  #poolOf(sender: string): Pool {
    const { pool: pools, perSecond } = this.#options
    const name = pools === 'family' && isIPv6(sender) ? 'IPv6' : 'first'
    const pool = this.#pools.get(name) ?? { senders: new Set(), left: perSecond }
    this.#pools.set(name, pool)
    return pool
  }
}
