interface Candidate<T> {
  readonly id: string
  readonly rank: number
  readonly units: number
  readonly value: T
}

/**
 * Keeps the first devices of an order, up to a number of units: by rank, then small devices first,
 * then by id. It takes the memory of twice the bound, however many devices there are. The order of
 * the calls does not matter.
 */
export class DeviceSelection<T> {
  readonly #most: number
  #candidates: Candidate<T>[] = []
  /** The first device that is beyond the bound; undefined while all devices fit. */
  #beyond: Candidate<T> | undefined
  #offered = 0

  /** @param most the bound, in units: at most so many devices */
  constructor(most: number) {
    this.#most = most
  }

  add(candidate: Candidate<T>): void {
    this.#offered++
    if (this.#beyond !== undefined && order(candidate, this.#beyond) > 0) return
    this.#candidates.push(candidate)
    if (this.#candidates.length >= 2 * this.#most) this.#cut()
  }

  /** The kept devices, in their order. */
  kept(): T[] {
    this.#cut()
    return this.#candidates.map(({ value }) => value)
  }

  get leftOut(): number {
    this.#cut()
    return this.#offered - this.#candidates.length
  }

  #cut(): void {
    this.#candidates.sort(order)
    let units = 0
    const end = this.#candidates.findIndex((candidate) => {
      units += candidate.units
      return units > this.#most
    })
    if (end < 0) return
    this.#beyond = this.#candidates[end]
    this.#candidates.length = end
  }
}

function order(a: Candidate<unknown>, b: Candidate<unknown>): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  if (a.units !== b.units) return a.units - b.units
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}
