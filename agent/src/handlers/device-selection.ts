interface Candidate<T> {
  readonly id: string
  readonly rank: number
  readonly value: T
}

/**
 * Keeps the first devices by rank, then by id, up to a number. It takes the memory of twice the
 * number, however many devices there are. The order of the calls does not matter.
 */
export class DeviceSelection<T> {
  readonly #most: number
  #candidates: Candidate<T>[] = []
  #offered = 0

  constructor(most: number) {
    this.#most = most
  }

  add(candidate: Candidate<T>): void {
    this.#offered++
    this.#candidates.push(candidate)
    if (this.#candidates.length >= 2 * this.#most) this.#cut()
  }

  /** The kept devices: in the order in which they came, if all are kept. */
  kept(): T[] {
    this.#cut()
    return this.#candidates.map(({ value }) => value)
  }

  get leftOut(): number {
    return Math.max(0, this.#offered - this.#most)
  }

  #cut(): void {
    if (this.#candidates.length <= this.#most) return
    this.#candidates.sort(order)
    this.#candidates.length = this.#most
  }
}

function order(a: Candidate<unknown>, b: Candidate<unknown>): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}
