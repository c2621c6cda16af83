import { Flag, FrameType, frame } from './frames.js'
import type { GrpcStatus } from './grpc-service.js'
import type { Field } from './header-table.js'

const END = Flag.endHeaders | Flag.endStream
const CONTENT_TYPE = field(['content-type', 'application/grpc+proto'])
const OPENING = Buffer.concat([field([':status', '200']), CONTENT_TYPE])
const OK = field(['grpc-status', '0'])
/** An answer must fit into a frame, and many clients take 8 kB of a header. */
const MAX_DETAILS = 4096
const UNSUPPORTED = field([':status', '415'])

/** Precedes the messages of a call. */
export function openingFrame(stream: number): Buffer {
  return frame(FrameType.headers, Flag.endHeaders, stream, OPENING)
}

/** Ends a call that did not fail. */
export function okFrame(stream: number): Buffer {
  return frame(FrameType.headers, END, stream, OK)
}

/** The whole answer to a call that failed. */
export function failureFrame(stream: number, { code, details }: GrpcStatus): Buffer {
  const status = [
    field(['grpc-status', `${code}`]),
    field(['grpc-message', percentEncoded(details)]),
  ]
  return frame(FrameType.headers, END, stream, Buffer.concat([OPENING, ...status]))
}

/** The whole answer to a request that is no call of gRPC. */
export function unsupportedFrame(stream: number): Buffer {
  return frame(FrameType.headers, END, stream, UNSUPPORTED)
}

/** A message with its prefix. */
export function messageBytes(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(5 + message.length)
  bytes.writeUInt8(0)
  bytes.writeUInt32BE(message.length, 1)
  bytes.set(message, 5)
  return bytes
}

/** A literal without an index: no connection remembers a field (RFC 7541, section 6.2.2). */
function field([name, value]: Field): Buffer {
  return Buffer.concat([Buffer.of(0), text(name), text(value)])
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  const length: number[] = []
  let rest = bytes.length
  if (rest < 0x7f) length.push(rest)
  else {
    length.push(0x7f)
    for (rest -= 0x7f; rest >= 0x80; rest >>= 7) length.push((rest & 0x7f) | 0x80)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}

/** PROTOCOL-HTTP2.md of gRPC, "Percent-Encoded". Cuts what is too long after a character. */
function percentEncoded(details: string): string {
  let encoded = ''
  for (const character of details) {
    const text = /^[ -$&-~]$/.test(character) ? character : escaped(character)
    if (encoded.length + text.length > MAX_DETAILS) break
    encoded += text
  }
  return encoded
}

function escaped(character: string): string {
  return [...Buffer.from(character)]
    .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
    .join('')
}
