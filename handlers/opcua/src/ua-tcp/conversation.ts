import { OpcuaProtocolError, OpcuaServiceError } from '../errors.js'
import { BinaryReader } from './binary-reader.js'
import { BinaryWriter } from './binary-writer.js'
import { encodeFrame, type Frame, FrameReader } from './frame.js'
import { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'
import { readResponseHeader, writeRequestHeader } from './service-header.js'
import { statusName } from './status-code.js'

const SECURITY_POLICY_NONE = 'http://opcfoundation.org/UA/SecurityPolicy#None'
// The ids of encodings (OPC 10000-6, NodeIds).
const OPEN_SECURE_CHANNEL_REQUEST = 446
const OPEN_SECURE_CHANNEL_RESPONSE = 449
const CLOSE_SECURE_CHANNEL_REQUEST = 452

/** Channel, token, sequence number and request id precede the body of each chunk. */
const CHUNK_HEADERS_BYTES = 8 + 16
/** The smallest receive buffer that OPC 10000-6, 7.1.2.3 allows. */
const MIN_CHUNK_BYTES = 8192
/**
 * OPC 10000-6, 6.7.2.4: sequence numbers start below this value, and wrap around within this
 * distance of the largest number.
 */
const SEQUENCE_ROLLOVER = 1024
const OPEN_REQUEST_ID = 1
const REQUEST_ID = 2
const CLOSE_REQUEST_ID = 3
/** A channel serves one request only. */
const CHANNEL_LIFETIME_MS = 60_000

interface ConversationOptions {
  /** The URL for the server, which may have several endpoints at one port. */
  readonly endpointUrl: string
  /** The encoded request with type and header. */
  readonly request: Uint8Array
  /** Milliseconds since 1970. */
  readonly now: number
  readonly limits?: Partial<UaTcpLimits>
}

/** The bytes to send now, and the encoded response when it is complete. */
interface Turn {
  readonly send: Buffer
  readonly response?: Buffer
}

type State = 'hello' | 'opening' | 'requested' | 'done'

/**
 * One request to a server, from Hello to CloseSecureChannel, over a channel with SecurityPolicy
 * None (OPC 10000-6, 6.7 and 7.1). Pure: the caller passes received bytes in and sends the returned
 * bytes.
 */
export class Conversation {
  readonly #options: ConversationOptions
  readonly #limits: UaTcpLimits
  readonly #frames: FrameReader
  #state: State = 'hello'
  /** The limits of the server; 0 means no limit. */
  #serverLimits = { chunkBytes: MIN_CHUNK_BYTES, messageBytes: 0, chunks: 0 }
  #channelId = 0
  #tokenId = 0
  #sent = 0
  #received: number | undefined
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(options: ConversationOptions) {
    this.#options = options
    this.#limits = { ...UA_TCP_LIMITS, ...options.limits }
    this.#frames = new FrameReader(this.#limits)
  }

  /** The missing answer of the server, for messages. */
  get missing(): string {
    return {
      hello: 'Acknowledge',
      opening: 'OpenSecureChannelResponse',
      requested: 'the response',
      done: 'nothing',
    }[this.#state]
  }

  /** The first bytes to send. */
  start(): Buffer {
    const { chunkBytes, messageBytes, chunks } = this.#limits
    const hello = new BinaryWriter()
      .uint32(0)
      .uint32(chunkBytes)
      .uint32(chunkBytes)
      .uint32(messageBytes)
      .uint32(chunks)
    return encodeFrame('HEL', 'F', hello.string(this.#options.endpointUrl).bytes())
  }

  /**
   * Processes received bytes.
   * @throws OpcuaProtocolError, OpcuaServiceError
   */
  *receive(bytes: Buffer): Generator<Turn, void, void> {
    if (this.#state === 'done') return
    for (const frame of this.#frames.push(bytes)) {
      const turn = this.#take(frame)
      if (turn !== undefined) yield turn
      // Ignore bytes after the response.
      if (turn?.response !== undefined) return
    }
  }

  #take(frame: Frame): Turn | undefined {
    const { type } = frame
    // OPC 10000-6, 7.1.2.5: the server ends the connection.
    if (type === 'ERR') throw readFailure(new BinaryReader(frame.body), 'refused the request')
    if (this.#state === 'hello' && type === 'ACK') return this.#acknowledged(frame)
    if (this.#state === 'opening' && type === 'OPN') return this.#opened(frame)
    if (this.#state === 'requested' && type === 'MSG') return this.#chunk(frame)
    throw new OpcuaProtocolError(
      'unexpected-message',
      `received ${type} instead of ${this.missing}`,
    )
  }

  #acknowledged({ body }: Frame): Turn {
    const reader = new BinaryReader(body)
    reader.uint32() // The protocol version: a client accepts any (7.1.2.4).
    const chunkBytes = reader.uint32()
    const sendBytes = reader.uint32()
    for (const size of [chunkBytes, sendBytes]) {
      if (size < MIN_CHUNK_BYTES) {
        throw new OpcuaProtocolError(
          'wrong-length',
          `Acknowledge has a buffer size of ${size} bytes, less than ${MIN_CHUNK_BYTES}`,
        )
      }
    }
    // A server must not raise the limits of Hello: the lower limit counts.
    this.#serverLimits = {
      chunkBytes: Math.min(chunkBytes, this.#limits.chunkBytes),
      messageBytes: reader.uint32(),
      chunks: reader.uint32(),
    }
    this.#state = 'opening'
    const message = new BinaryWriter()
      .uint32(0)
      .string(SECURITY_POLICY_NONE)
      .byteString(null)
      .byteString(null)
      .raw(this.#sequenceHeader(OPEN_REQUEST_ID))
    writeRequestHeader(message.nodeId(OPEN_SECURE_CHANNEL_REQUEST), this.#options.now)
    // Version 0, Issue, MessageSecurityMode None, without a nonce.
    message.uint32(0).uint32(0).uint32(1).byteString(null).uint32(CHANNEL_LIFETIME_MS)
    return { send: encodeFrame('OPN', 'F', message.bytes()) }
  }

  #opened({ mark, body }: Frame): Turn {
    // OPC 10000-6, 6.7.2.2: only MSG may have several chunks.
    if (mark !== 'F') throw new OpcuaProtocolError('unexpected-message', 'OPN has several chunks')
    const reader = new BinaryReader(body, this.#limits)
    reader.uint32()
    const policy = reader.string()
    if (policy !== SECURITY_POLICY_NONE) {
      throw new OpcuaProtocolError(
        'unexpected-message',
        `the channel was opened with SecurityPolicy ${JSON.stringify(policy.slice(0, 100))}`,
      )
    }
    reader.byteString()
    reader.byteString()
    this.#checkSequence(reader.uint32(), reader.uint32(), OPEN_REQUEST_ID)
    readResponseHeader(reader, OPEN_SECURE_CHANNEL_RESPONSE, 'OpenSecureChannel')
    reader.uint32()
    this.#channelId = reader.uint32()
    this.#tokenId = reader.uint32()
    this.#state = 'requested'
    return { send: Buffer.concat(this.#requestChunks()) }
  }

  #requestChunks(): Buffer[] {
    const { request } = this.#options
    const room = this.#serverLimits.chunkBytes - CHUNK_HEADERS_BYTES
    const count = Math.ceil(request.length / room)
    const { messageBytes, chunks } = this.#serverLimits
    if ((messageBytes > 0 && request.length > messageBytes) || (chunks > 0 && count > chunks)) {
      throw new OpcuaProtocolError(
        'request-too-large',
        `the request has ${request.length} bytes in ${count} chunks; the server accepts ` +
          `${messageBytes} bytes in ${chunks} chunks`,
      )
    }
    return Array.from({ length: count }, (_, index) => {
      const part = request.subarray(index * room, (index + 1) * room)
      return encodeFrame(
        'MSG',
        index === count - 1 ? 'F' : 'C',
        this.#onChannel(REQUEST_ID).raw(part).bytes(),
      )
    })
  }

  #chunk({ mark, body }: Frame): Turn | undefined {
    const reader = new BinaryReader(body)
    const channelId = reader.uint32()
    const tokenId = reader.uint32()
    if (channelId !== this.#channelId || tokenId !== this.#tokenId) {
      throw new OpcuaProtocolError(
        'wrong-channel',
        `a chunk has channel ${channelId} and token ${tokenId} instead of ` +
          `${this.#channelId} and ${this.#tokenId}`,
      )
    }
    this.#checkSequence(reader.uint32(), reader.uint32(), REQUEST_ID)
    const part = body.subarray(body.length - reader.remaining)
    // OPC 10000-6, 6.7.3.
    if (mark === 'A') throw readFailure(reader, 'aborted its response')
    this.#chunks.push(part)
    this.#bytes += part.length
    if (this.#chunks.length > this.#limits.chunks) {
      throw new OpcuaProtocolError(
        'too-many-chunks',
        `the response has more than ${this.#limits.chunks} chunks`,
      )
    }
    if (this.#bytes > this.#limits.messageBytes) {
      throw new OpcuaProtocolError(
        'message-too-large',
        `the response has more than ${this.#limits.messageBytes} bytes`,
      )
    }
    if (mark === 'C') return undefined
    this.#state = 'done'
    const response = Buffer.concat(this.#chunks)
    this.#chunks = []
    return { send: this.#close(), response }
  }

  #close(): Buffer {
    const body = this.#onChannel(CLOSE_REQUEST_ID).nodeId(CLOSE_SECURE_CHANNEL_REQUEST)
    return encodeFrame('CLO', 'F', writeRequestHeader(body, this.#options.now).bytes())
  }

  #onChannel(requestId: number): BinaryWriter {
    return new BinaryWriter()
      .uint32(this.#channelId)
      .uint32(this.#tokenId)
      .raw(this.#sequenceHeader(requestId))
  }

  #sequenceHeader(requestId: number): Buffer {
    this.#sent++
    return new BinaryWriter().uint32(this.#sent).uint32(requestId).bytes()
  }

  #checkSequence(number: number, requestId: number, expected: number): void {
    const previous = this.#received
    const wrapped =
      previous !== undefined &&
      previous > 0xffff_ffff - SEQUENCE_ROLLOVER &&
      number < SEQUENCE_ROLLOVER
    if (previous !== undefined && number !== previous + 1 && !wrapped) {
      throw new OpcuaProtocolError(
        'wrong-sequence-number',
        `a chunk has the sequence number ${number} after ${previous}`,
      )
    }
    this.#received = number
    if (requestId !== expected) {
      throw new OpcuaProtocolError(
        'wrong-request',
        `a chunk answers request ${requestId} instead of ${expected}`,
      )
    }
  }
}

/** @param what the action of the server, for the message */
function readFailure(reader: BinaryReader, what: string): OpcuaServiceError {
  const code = reader.uint32()
  const text = reader.string().slice(0, 200)
  const reason = text === '' ? '' : `, ${JSON.stringify(text)}`
  return new OpcuaServiceError(code, `the server ${what}: ${statusName(code)}${reason}`)
}
