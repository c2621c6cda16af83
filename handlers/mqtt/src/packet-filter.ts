import { Transform, type TransformCallback } from 'node:stream'

/** The type and the length of a packet take so many bytes at most (MQTT 3.1.1, 2.2). */
const MAX_HEADER_BYTES = 5

/**
 * Leaves out packets that are too long, without keeping them: the parser of the library takes
 * 256 MB. One device with a long retained message would else hide all others.
 */
export class PacketFilter extends Transform {
  readonly #maxBytes: number
  #header: number[] = []
  /** The bytes of the present packet that have not come yet. */
  #left = 0
  #isSkipped = false
  #leftOut = 0

  constructor(maxBytes: number) {
    super()
    this.#maxBytes = maxBytes
  }

  /** The number of packets that were too long. */
  get leftOut(): number {
    return this.#leftOut
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const part = chunk.subarray(at, at + this.#left)
        if (!this.#isSkipped) this.push(part)
        at += part.length
        this.#left -= part.length
      } else this.#readHeader(chunk.readUInt8(at++))
    }
    done()
  }

  #readHeader(byte: number): void {
    this.#header.push(byte)
    const [first = 0, ...digits] = this.#header
    const isComplete = digits.length > 0 && byte < 128
    if (!isComplete && this.#header.length < MAX_HEADER_BYTES) return
    this.#left = digits.reduce((sum, digit, n) => sum + (digit % 128) * 128 ** n, 0)
    const isLong = this.#left > this.#maxBytes
    if (isLong) this.#leftOut++
    this.#isSkipped = isLong || isAcknowledged(first)
    if (!this.#isSkipped) this.push(Buffer.from(this.#header))
    this.#header = []
  }
}

/** A message of QoS 1 or 2: no subscription asks for it, and the library would keep some. */
function isAcknowledged(first: number): boolean {
  return first >> 4 === 3 && (first & 6) !== 0
}
