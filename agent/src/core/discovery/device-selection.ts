interface Candidate<T> {
  readonly id: string
  readonly rank: number
  readonly value: T
}

/**
 * Keeps the first devices of an order: by rank, and devices of one rank by id. It takes the memory
 * of twice the bound, however many devices there are. The order of the calls does not matter.
 */
export class DeviceSelection<T> {
  readonly #most: number
  #candidates: Candidate<T>[] = []
  /** The last device that is kept if no other device comes; undefined before the bound is reached. */
  #last: Candidate<T> | undefined
  #offered = 0

  constructor(most: number) {
    this.#most = most
  }

  add(id: string, rank: number, value: T): void {
    this.#offered++
    const candidate = { id, rank, value }
    if (this.#last !== undefined && order(candidate, this.#last) > 0) return
    this.#candidates.push(candidate)
    if (this.#candidates.length >= 2 * this.#most) this.#cut()
  }

  /** The kept devices, in their order. */
  kept(): T[] {
    this.#cut()
    return this.#candidates.map(({ value }) => value)
  }

  get leftOut(): number {
    return Math.max(0, this.#offered - this.#most)
  }

  #cut(): void {
    this.#candidates.sort(order)
    if (this.#candidates.length < this.#most) return
    this.#candidates.length = this.#most
    this.#last = this.#candidates.at(-1)
  }
}

function order(a: Candidate<unknown>, b: Candidate<unknown>): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}
