export interface SenderBudgetOptions {
  /** How much one sender may have in a second. */
  readonly perSender: number
  /** How much all may have together; it bounds how many senders are told apart. */
  readonly total: number
}

/** Gives every sender the same in each second, so that one who floods us crowds out nobody but himself. */
export class SenderBudget {
  readonly #options: SenderBudgetOptions
  readonly #taken = new Map<string, number>()
  #left: number
  #second = Number.NaN

  constructor(options: SenderBudgetOptions) {
    this.#options = options
    this.#left = options.total
  }

  /** Whether this sender has so much left. `now` in milliseconds. */
  has(sender: string, amount: number, now: number): boolean {
    this.#renew(Math.floor(now / 1000))
    return amount <= this.#left && this.#takenBy(sender) + amount <= this.#options.perSender
  }

  /** As {@link has}, and takes it. */
  take(sender: string, amount: number, now: number): boolean {
    if (!this.has(sender, amount, now)) return false
    this.#taken.set(sender, this.#takenBy(sender) + amount)
    this.#left -= amount
    return true
  }

  #takenBy(sender: string): number {
    return this.#taken.get(sender) ?? 0
  }

  #renew(second: number): void {
    if (second === this.#second) return
    this.#second = second
    this.#left = this.#options.total
    this.#taken.clear()
  }
}
