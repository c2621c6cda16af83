// Frames of HTTP/2 (RFC 9113, sections 4 and 6).
import { ProtocolViolationError } from '../../errors.js'

export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const Flag = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const

export const Http2Error = {
  none: 0,
  protocol: 1,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  compression: 9,
  enhanceYourCalm: 11,
} as const

export interface Frame {
  readonly type: number
  readonly flags: number
  /** 0: the connection. */
  readonly stream: number
  readonly payload: Buffer
}

/** The longest frame that a client may send without an agreement. */
export const MAX_FRAME_BYTES = 16_384
const FRAME_HEADER_BYTES = 9
const STREAM_MASK = 0x7fff_ffff
const NOTHING = Buffer.alloc(0)

/** Cuts the bytes of a connection into frames. */
export class FrameReader {
  #bytes: Buffer = NOTHING

  add(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
  }

  /** @returns undefined if fewer bytes have come */
  take(length: number): Buffer | undefined {
    if (this.#bytes.length < length) return undefined
    const taken = this.#bytes.subarray(0, length)
    // An empty part would keep the memory of the whole.
    this.#bytes = this.#bytes.length === length ? NOTHING : this.#bytes.subarray(length)
    return taken
  }

  /** @returns undefined if the next frame has not come as a whole @throws ProtocolViolationError */
  next(): Frame | undefined {
    if (this.#bytes.length < FRAME_HEADER_BYTES) return undefined
    const length = this.#bytes.readUIntBE(0, 3)
    if (length > MAX_FRAME_BYTES)
      throw new ProtocolViolationError(`a frame has ${length} bytes`, Http2Error.frameSize)
    const bytes = this.take(FRAME_HEADER_BYTES + length)
    if (bytes === undefined) return undefined
    return {
      type: bytes.readUInt8(3),
      flags: bytes.readUInt8(4),
      stream: bytes.readUInt32BE(5) & STREAM_MASK,
      payload: bytes.subarray(FRAME_HEADER_BYTES),
    }
  }
}

/** The content of a frame without its padding. @throws ProtocolViolationError */
export function withoutPadding({ flags, payload }: Frame): Buffer {
  if ((flags & Flag.padded) === 0) return payload
  const padding = payload[0]
  if (padding === undefined || padding >= payload.length)
    throw new ProtocolViolationError('the padding is longer than the frame', Http2Error.protocol)
  return payload.subarray(1, payload.length - padding)
}

export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length)
  bytes.writeUIntBE(payload.length, 0, 3)
  bytes.writeUInt8(type, 3)
  bytes.writeUInt8(flags, 4)
  bytes.writeUInt32BE(stream, 5)
  bytes.set(payload, FRAME_HEADER_BYTES)
  return bytes
}

/** A frame whose content is one number of 32 bits. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(value)
  return frame(type, 0, stream, payload)
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(settings.length * 6)
  for (const [index, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, index * 6)
    payload.writeUInt32BE(value, index * 6 + 2)
  }
  return frame(FrameType.settings, 0, 0, payload)
}

export function goAwayFrame(lastStream: number, error: number): Buffer {
  const payload = Buffer.allocUnsafe(8)
  payload.writeUInt32BE(lastStream)
  payload.writeUInt32BE(error, 4)
  return frame(FrameType.goAway, 0, 0, payload)
}
