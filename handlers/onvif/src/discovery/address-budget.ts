import { isIPv6 } from 'node:net'

export interface BudgetOptions {
  /** How much one address may have in a round. */
  readonly perAddress: number
  /** How many addresses of IPv4 are told apart in a round, and how many of IPv6: any more get what is reserved for them alone. */
  readonly addresses: number
  /** How much those of IPv4 may have in a second together, and those of IPv6. @default no bound */
  readonly perSecond?: number
  /** How much an address has in each round in any case: it counts for no bound. @default nothing */
  readonly reservedFor?: (address: string) => number
}

/** How often somebody was refused. */
export interface Refusals {
  /** Because he had had enough. */
  readonly ofOneAddress: number
  /** Because all together had. */
  readonly inAll: number
}

/** What those of one family have. Who has thousands of addresses of IPv6, as everybody does, takes nothing from those of IPv4. */
interface Pool {
  readonly addresses: Set<string>
  second: number
  left: number
}

/** Gives every address the same, so that who floods us crowds out nobody but himself, and nobody for whom something is reserved. */
export class AddressBudget {
  readonly #options: Required<BudgetOptions>
  readonly #taken = new Map<string, number>()
  readonly #pools = { IPv4: emptyPool(), IPv6: emptyPool() }
  #refusals = { ofOneAddress: 0, inAll: 0 }

  constructor(options: BudgetOptions) {
    this.#options = { perSecond: Number.POSITIVE_INFINITY, reservedFor: () => 0, ...options }
  }

  /**
   * Whether this address may have so much; takes it.
   * @param address with or without a zone
   * @param now in milliseconds
   */
  take(address: string, amount: number, now: number): boolean {
    const { perAddress, reservedFor } = this.#options
    const taken = (this.#taken.get(address) ?? 0) + amount
    const reserved = reservedFor(address)
    if (taken > Math.max(perAddress, reserved)) {
      this.#refusals.ofOneAddress++
      return false
    }
    if (taken > reserved && !this.#takeOfPool(address, amount, now)) {
      this.#refusals.inAll++
      return false
    }
    this.#taken.set(address, taken)
    return true
  }

  /** A new round: everybody has everything again. */
  renew(): Refusals {
    const refusals = this.#refusals
    this.#refusals = { ofOneAddress: 0, inAll: 0 }
    this.#taken.clear()
    for (const { addresses } of Object.values(this.#pools)) addresses.clear()
    return refusals
  }

  #takeOfPool(address: string, amount: number, now: number): boolean {
    const { addresses, perSecond } = this.#options
    const pool = this.#pools[isIPv6(address.replace(/%.*$/, '')) ? 'IPv6' : 'IPv4']
    const second = Math.floor(now / 1000)
    if (second !== pool.second) Object.assign(pool, { second, left: perSecond })
    if (amount > pool.left || (!pool.addresses.has(address) && pool.addresses.size >= addresses))
      return false
    pool.addresses.add(address)
    pool.left -= amount
    return true
  }
}

function emptyPool(): Pool {
  return { addresses: new Set(), second: Number.NaN, left: 0 }
}
