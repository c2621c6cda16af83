/** The OPC UA epoch, 1601-01-01, in milliseconds before 1970-01-01. */
export const EPOCH_MS = 11_644_473_600_000

/** Writes the built-in types of OPC UA Binary (OPC 10000-6, 5.2.2). */
export class BinaryWriter {
  readonly #parts: Buffer[] = []

  uint8(value: number): this {
    return this.#put(1, (bytes) => bytes.writeUInt8(value))
  }

  uint16(value: number): this {
    return this.#put(2, (bytes) => bytes.writeUInt16LE(value))
  }

  uint32(value: number): this {
    return this.#put(4, (bytes) => bytes.writeUInt32LE(value))
  }

  /** @param ms milliseconds since 1970 */
  dateTime(ms: number): this {
    return this.#put(8, (bytes) =>
      bytes.writeBigInt64LE(BigInt(Math.trunc(ms) + EPOCH_MS) * 10_000n),
    )
  }

  string(text: string | null): this {
    return this.byteString(text === null ? null : Buffer.from(text, 'utf8'))
  }

  byteString(bytes: Uint8Array | null): this {
    if (bytes === null) return this.uint32(0xffff_ffff)
    return this.uint32(bytes.length).raw(bytes)
  }

  localizedText(text: string): this {
    return this.uint8(0x02).string(text)
  }

  array<T>(values: readonly T[], write: (value: T) => unknown): this {
    this.uint32(values.length)
    for (const value of values) write(value)
    return this
  }

  /** Writes the four-byte form of a NodeId in namespace 0. */
  nodeId(id: number): this {
    return this.uint8(0x01).uint8(0).uint16(id)
  }

  nullNodeId(): this {
    return this.uint8(0x00).uint8(0)
  }

  nullExtensionObject(): this {
    return this.nullNodeId().uint8(0x00)
  }

  raw(bytes: Uint8Array): this {
    this.#parts.push(Buffer.from(bytes))
    return this
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts)
  }

  #put(size: number, write: (bytes: Buffer) => unknown): this {
    const bytes = Buffer.alloc(size)
    write(bytes)
    this.#parts.push(bytes)
    return this
  }
}
