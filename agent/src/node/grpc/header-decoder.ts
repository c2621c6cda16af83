import { ProtocolViolationError } from '../../errors.js'
import { Http2Error } from './frames.js'
import { bytesOf, type Field, HeaderTable } from './header-table.js'
import { decodeHuffman } from './huffman.js'

/** The size of the table of a client that has not read the settings yet (RFC 9113, 6.5.2). */
const TABLE_BYTES = 4096
/** A field of one byte can stand for a long text. */
const MAX_HEADER_BYTES = 64 * 1024
/** No index and no length of a header is larger. */
const MAX_INTEGER = 1 << 20

/** Decodes the headers of one connection (HPACK, RFC 7541). */
export class HeaderDecoder {
  readonly #table = new HeaderTable(TABLE_BYTES)

  /**
   * Decodes a header. Each header of a connection must be decoded, in order.
   * @throws ProtocolViolationError
   */
  decode(block: Buffer): readonly Field[] {
    const fields: Field[] = []
    const reader = new BlockReader(block)
    let bytes = 0
    while (!reader.isAtEnd) {
      const field = this.#readField(reader)
      if (field === undefined) {
        if (fields.length > 0) throw violation('the table changes its size after a field')
        continue
      }
      bytes += bytesOf(field)
      if (bytes > MAX_HEADER_BYTES)
        throw new ProtocolViolationError(
          `a header has more than ${MAX_HEADER_BYTES} bytes`,
          Http2Error.enhanceYourCalm,
        )
      fields.push(field)
    }
    return fields
  }

  /** @returns undefined for an instruction that is no field */
  #readField(reader: BlockReader): Field | undefined {
    const first = reader.peek()
    if (first >= 0x80) return this.#fieldAt(reader.integer(7))
    if (first >= 0x40) {
      const field = this.#literal(reader, 6)
      this.#table.add(field)
      return field
    }
    if (first < 0x20) return this.#literal(reader, 4)
    const size = reader.integer(5)
    if (size > TABLE_BYTES) throw violation(`a table of ${size} bytes`)
    this.#table.resize(size)
    return undefined
  }

  #literal(reader: BlockReader, prefixBits: number): Field {
    const index = reader.integer(prefixBits)
    const name = index === 0 ? reader.text() : this.#fieldAt(index)[0]
    return [name, reader.text()]
  }

  #fieldAt(index: number): Field {
    const field = this.#table.at(index)
    if (field === undefined) throw violation(`there is no field ${index}`)
    return field
  }
}

class BlockReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  peek(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw violation('it ends within a field')
    return byte
  }

  /** RFC 7541, section 5.1. */
  integer(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1
    let value = this.#next() & mask
    if (value < mask) return value
    for (let shift = 0; ; shift += 7) {
      const byte = this.#next()
      value += (byte & 0x7f) << shift
      if (value > MAX_INTEGER || shift > 14) throw violation('a number is too large')
      if (byte < 0x80) return value
    }
  }

  /** RFC 7541, section 5.2. */
  text(): string {
    const isHuffman = this.peek() >= 0x80
    const length = this.integer(7)
    const end = this.#at + length
    if (end > this.#bytes.length) throw violation('it ends within a text')
    const bytes = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return isHuffman ? decodeHuffman(bytes) : bytes.toString('latin1')
  }

  #next(): number {
    const byte = this.peek()
    this.#at++
    return byte
  }
}

function violation(what: string): ProtocolViolationError {
  return new ProtocolViolationError(`header: ${what}`, Http2Error.compression)
}
