export interface BudgetOptions {
  /** How much one address may have. */
  readonly perAddress: number
  /** How many addresses are told apart; any more get nothing. */
  readonly addresses: number
}

/** Gives every address the same, so that who floods us crowds out nobody but himself. */
export class AddressBudget {
  readonly #options: BudgetOptions
  readonly #taken = new Map<string, number>()
  #refused = 0

  constructor(options: BudgetOptions) {
    this.#options = options
  }

  /** Whether this address still has something left; takes one of it. */
  take(address: string): boolean {
    const taken = this.#taken.get(address) ?? 0
    const known = taken > 0 || this.#taken.size < this.#options.addresses
    if (!known || taken >= this.#options.perAddress) {
      this.#refused++
      return false
    }
    this.#taken.set(address, taken + 1)
    return true
  }

  /** Everybody has everything again. @returns how often somebody was refused */
  renew(): number {
    const refused = this.#refused
    this.#taken.clear()
    this.#refused = 0
    return refused
  }
}
