import { OpcuaProtocolError } from '../errors.js'
import type { UaTcpLimits } from './limits.js'

const TYPES = ['HEL', 'ACK', 'ERR', 'OPN', 'MSG', 'CLO'] as const
const HEADER_BYTES = 8

type FrameType = (typeof TYPES)[number]

/**
 * `F`: the last chunk of a message. `C`: more chunks follow. `A`: the sender aborts the message.
 * Messages of the connection (HEL, ACK, ERR) have no chunks: always `F`.
 */
type ChunkMark = 'F' | 'C' | 'A'

/** The transfer unit of UA-TCP (OPC 10000-6, 7.1.2.2): a message, or a chunk of it. */
export interface Frame {
  readonly type: FrameType
  readonly mark: ChunkMark
  readonly body: Buffer
}

export function encodeFrame(type: FrameType, mark: ChunkMark, body: Uint8Array): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write(type + mark, 0, 'latin1')
  header.writeUInt32LE(HEADER_BYTES + body.length, 4)
  return Buffer.concat([header, body])
}

/**
 * Splits a byte stream into frames. Buffers at most one chunk, and checks each header immediately.
 */
export class FrameReader {
  readonly #limits: Pick<UaTcpLimits, 'chunkBytes'>
  /** Has the size of the header first, then the size of the whole frame. */
  #frame = Buffer.alloc(HEADER_BYTES)
  #filled = 0

  constructor(limits: Pick<UaTcpLimits, 'chunkBytes'>) {
    this.#limits = limits
  }

  /** @throws OpcuaProtocolError `not-ua-tcp`, `wrong-length`, `chunk-too-large` */
  *push(bytes: Buffer): Generator<Frame, void, void> {
    let rest = bytes
    while (rest.length > 0) {
      const headerWasComplete = this.#filled >= HEADER_BYTES
      const taken = rest.copy(this.#frame, this.#filled)
      this.#filled += taken
      rest = rest.subarray(taken)
      if (!headerWasComplete) {
        checkPrefix(this.#frame.subarray(0, this.#filled))
        if (this.#filled < HEADER_BYTES) return
        this.#allocate()
      }
      if (this.#filled === this.#frame.length) yield this.#take()
    }
  }

  #allocate(): void {
    const size = this.#frame.readUInt32LE(4)
    if (size < HEADER_BYTES) {
      throw new OpcuaProtocolError(
        'wrong-length',
        `a chunk has a size of ${size} bytes, less than its header`,
      )
    }
    if (size > this.#limits.chunkBytes) {
      throw new OpcuaProtocolError(
        'chunk-too-large',
        `a chunk has a size of ${size} bytes, more than the limit of ${this.#limits.chunkBytes}`,
      )
    }
    const frame = Buffer.alloc(size)
    this.#frame.copy(frame)
    this.#frame = frame
  }

  #take(): Frame {
    const frame = this.#frame
    this.#frame = Buffer.alloc(HEADER_BYTES)
    this.#filled = 0
    const type = typeOf(frame)
    const mark = markOf(frame)
    if (type === undefined || mark === undefined) throw notUaTcp(frame)
    return { type, mark, body: frame.subarray(HEADER_BYTES) }
  }
}

/** Fails after four bytes, so that a caller need not wait for the rest of an HTML page. */
function checkPrefix(bytes: Buffer): void {
  if (bytes.length >= 3 && typeOf(bytes) === undefined) throw notUaTcp(bytes)
  if (bytes.length >= 4 && markOf(bytes) === undefined) throw notUaTcp(bytes)
}

function typeOf(bytes: Buffer): FrameType | undefined {
  const text = bytes.toString('latin1', 0, 3)
  return TYPES.find((type) => type === text)
}

function markOf(bytes: Buffer): ChunkMark | undefined {
  const type = typeOf(bytes)
  // There the byte is reserved, and the receiver ignores it.
  if (type === 'HEL' || type === 'ACK' || type === 'ERR') return 'F'
  const text = bytes.toString('latin1', 3, 4)
  return text === 'F' || text === 'C' || text === 'A' ? text : undefined
}

function notUaTcp(bytes: Buffer): OpcuaProtocolError {
  const beginning = JSON.stringify(bytes.toString('latin1', 0, 4))
  return new OpcuaProtocolError(
    'not-ua-tcp',
    `the peer does not speak UA-TCP: its answer begins with ${beginning}`,
  )
}
