import type { Clock } from '@akrijs/runtime'

export interface FairBudgetOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** The most that all users together take at once. A single user takes half of it at most. */
  readonly burst: number
  /** The milliseconds until another unit may be taken. */
  readonly refillMs: number
}

/**
 * A budget that several users share. A user may take a unit while it owes less than what is left
 * (a dynamic threshold, as switches share the memory of their queues). So users that owe half of
 * the burst together never wait. A user that owes nothing finds something left, however much
 * another user asks for. Refills pay the debts of all users evenly.
 */
export class FairBudget<User> {
  readonly #options: FairBudgetOptions
  readonly #debts = new Map<User, number>()
  #owed = 0
  #refilledAt: number

  constructor(options: FairBudgetOptions) {
    this.#options = options
    this.#refilledAt = options.clock.monotonicMs()
  }

  /** @returns 0 if a unit was taken; else the milliseconds until the next attempt */
  take(user: User): number {
    const { burst, refillMs } = this.#options
    this.#refill()
    const debt = this.#debts.get(user) ?? 0
    if (debt >= burst - this.#owed) return refillMs
    this.#debts.set(user, debt + 1)
    this.#owed++
    return 0
  }

  #refill(): void {
    const { clock, refillMs } = this.#options
    const units = Math.floor((clock.monotonicMs() - this.#refilledAt) / refillMs)
    this.#refilledAt += units * refillMs
    let rest = Math.min(units, this.#owed)
    this.#owed -= rest
    const each = Math.ceil(rest / this.#debts.size)
    // A user that was paid goes to the end, so the next refill pays another user first.
    for (const [user, debt] of this.#debts) {
      if (rest === 0) return
      const paid = Math.min(each, debt, rest)
      rest -= paid
      this.#debts.delete(user)
      if (paid < debt) this.#debts.set(user, debt - paid)
    }
  }
}
