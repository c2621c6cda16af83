import { OpcuaProtocolError } from '../errors.js'
import { EPOCH_MS } from './binary-writer.js'
import { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'

/** The nesting limit of a DiagnosticInfo; OPC 10000-6, 5.2.2.12 leaves the limit to the reader. */
const MAX_DEPTH = 10

/**
 * Reads the built-in types of OPC UA Binary (OPC 10000-6, 5.2.2). Checks each length before use.
 */
export class BinaryReader {
  readonly #bytes: Buffer
  readonly #elements: number
  #at = 0

  constructor(bytes: Buffer, { elements }: Pick<UaTcpLimits, 'elements'> = UA_TCP_LIMITS) {
    this.#bytes = bytes
    this.#elements = elements
  }

  get remaining(): number {
    return this.#bytes.length - this.#at
  }

  uint8(): number {
    return this.#bytes.readUInt8(this.#take(1))
  }

  uint16(): number {
    return this.#bytes.readUInt16LE(this.#take(2))
  }

  uint32(): number {
    return this.#bytes.readUInt32LE(this.#take(4))
  }

  int32(): number {
    return this.#bytes.readInt32LE(this.#take(4))
  }

  /** Milliseconds since 1970. The number may be far outside of any calendar. */
  dateTime(): number {
    return Number(this.#bytes.readBigInt64LE(this.#take(8)) / 10_000n) - EPOCH_MS
  }

  /** Reads a null String as empty: no discovery service distinguishes them. */
  string(): string {
    return this.byteString().toString('utf8')
  }

  /** Reads a null ByteString as empty. */
  byteString(): Buffer {
    const length = this.#length()
    const start = this.#take(length)
    return this.#bytes.subarray(start, start + length)
  }

  localizedText(): string {
    const mask = this.uint8()
    if (mask & 0x01) this.string()
    return mask & 0x02 ? this.string() : ''
  }

  /** Reads a null array as empty. */
  array<T>(read: () => T): T[] {
    const length = this.#length()
    if (length > this.#elements) {
      throw new OpcuaProtocolError(
        'too-many-elements',
        `an array has ${length} elements, more than ${this.#elements}`,
      )
    }
    // An element takes at least one byte.
    if (length > this.remaining) throw this.#beyond(length)
    return Array.from({ length }, read)
  }

  /** The identifier of a numeric NodeId in namespace 0; undefined for any other NodeId. */
  nodeId(): number | undefined {
    const encoding = this.uint8()
    switch (encoding) {
      case 0x00:
        return this.uint8()
      case 0x01:
        return inNamespace0(this.uint8(), this.uint16())
      case 0x02:
        return inNamespace0(this.uint16(), this.uint32())
      case 0x03:
      case 0x05:
        this.uint16()
        this.byteString()
        return undefined
      case 0x04:
        this.uint16()
        this.#take(16)
        return undefined
      default:
        throw new OpcuaProtocolError(
          'unknown-encoding',
          `a NodeId has the unknown encoding 0x${encoding.toString(16)}`,
        )
    }
  }

  skipExtensionObject(): void {
    this.nodeId()
    const encoding = this.uint8()
    if (encoding > 0x02) {
      throw new OpcuaProtocolError(
        'unknown-encoding',
        `an ExtensionObject has the unknown encoding 0x${encoding.toString(16)}`,
      )
    }
    if (encoding !== 0x00) this.byteString()
  }

  skipDiagnosticInfo(): void {
    for (let depth = 0; ; depth++) {
      if (depth > MAX_DEPTH) {
        throw new OpcuaProtocolError(
          'nested-too-deeply',
          `a DiagnosticInfo is nested more than ${MAX_DEPTH} times`,
        )
      }
      const mask = this.uint8()
      // SymbolicId, NamespaceUri, LocalizedText, Locale.
      for (const bit of [0x01, 0x02, 0x04, 0x08]) if (mask & bit) this.int32()
      if (mask & 0x10) this.string()
      if (mask & 0x20) this.uint32()
      if (!(mask & 0x40)) return
    }
  }

  /** A length of -1 means null. */
  #length(): number {
    const length = this.int32()
    if (length < -1) throw new OpcuaProtocolError('negative-length', `a length is ${length}`)
    return Math.max(0, length)
  }

  #take(size: number): number {
    if (size > this.remaining) throw this.#beyond(size)
    const start = this.#at
    this.#at += size
    return start
  }

  #beyond(size: number): OpcuaProtocolError {
    const { remaining } = this
    return new OpcuaProtocolError(
      'wrong-length',
      `a length of ${size} exceeds the remaining ${remaining} bytes`,
    )
  }
}

function inNamespace0(namespace: number, id: number): number | undefined {
  return namespace === 0 ? id : undefined
}
