/** The smallest capacity, in bytes. */
const LEAST_CAPACITY = 1024

/**
 * Bytes that arrive in pieces. The memory is at most twice the bytes, however small the pieces are:
 * a list of pieces would take 200 bytes for each.
 */
export class GrowingBuffer {
  readonly #most: number
  #memory = Buffer.alloc(0)
  #length = 0

  /** @param most the bytes that will arrive at most */
  constructor(most: number) {
    this.#most = most
  }

  get length(): number {
    return this.#length
  }

  /** The capacity after another piece of this length, in bytes. */
  capacityWith(length: number): number {
    const needed = this.#length + length
    if (needed <= this.#memory.length) return this.#memory.length
    const doubled = Math.max(2 * this.#memory.length, LEAST_CAPACITY)
    return Math.max(needed, Math.min(doubled, this.#most))
  }

  append(piece: Buffer): void {
    const capacity = this.capacityWith(piece.length)
    if (capacity > this.#memory.length) {
      const before = this.#memory
      this.#memory = Buffer.allocUnsafeSlow(capacity)
      before.copy(this.#memory, 0, 0, this.#length)
    }
    piece.copy(this.#memory, this.#length)
    this.#length += piece.length
  }

  clear(): void {
    this.#memory = Buffer.alloc(0)
    this.#length = 0
  }

  /** The bytes so far, without a copy. */
  bytes(): Buffer {
    return this.#memory.subarray(0, this.#length)
  }
}
