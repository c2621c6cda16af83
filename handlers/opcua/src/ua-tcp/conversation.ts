import { OpcuaProtocolError, OpcuaServiceError } from '../errors.js'
import { BinaryReader } from './binary-reader.js'
import { BinaryWriter } from './binary-writer.js'
import { encodeFrame, type Frame, FrameReader } from './frame.js'
import { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'
import { readResponseHeader, writeRequestHeader } from './service-header.js'
import { statusName } from './status-code.js'

const SECURITY_POLICY_NONE = 'http://opcfoundation.org/UA/SecurityPolicy#None'
const OPEN_SECURE_CHANNEL_REQUEST = 446
const OPEN_SECURE_CHANNEL_RESPONSE = 449
const CLOSE_SECURE_CHANNEL_REQUEST = 452

/** Channel, token, sequence number and request id before the body of each chunk. */
const CHUNK_HEADERS_BYTES = 8 + 16
/** OPC 10000-6, 7.1.2.3: no receive buffer is smaller. */
const LEAST_CHUNK_BYTES = 8192
/** OPC 10000-6, 6.7.2.4: a sequence number starts below this, and starts anew within this of the largest one. */
const SEQUENCE_ROLLOVER = 1024
const OPEN_REQUEST_ID = 1
const REQUEST_ID = 2
const CLOSE_REQUEST_ID = 3
/** No channel of ours lives longer than its one question. */
const CHANNEL_LIFETIME_MS = 60_000

export interface ConversationOptions {
  /** What the server is called by; it may serve several under one port. */
  readonly endpointUrl: string
  /** The encoded request, with its type and header. */
  readonly request: Uint8Array
  /** Milliseconds since 1970. */
  readonly now: number
  readonly limits?: Partial<UaTcpLimits>
}

/** What is to be sent now, and the encoded response once it is complete. */
export interface Turn {
  readonly send: Buffer
  readonly response?: Buffer
}

type State = 'hello' | 'opening' | 'asking' | 'done'

/**
 * One question to a server, from Hello to CloseSecureChannel, over a channel with SecurityPolicy None (OPC 10000-6, 6.7 and
 * 7.1). It knows no socket: it is fed what comes and says what is to be sent.
 */
export class Conversation {
  readonly #options: ConversationOptions
  readonly #limits: UaTcpLimits
  readonly #frames: FrameReader
  #state: State = 'hello'
  /** What the server takes at a time; 0 is no limit. */
  #theirs = { chunkBytes: LEAST_CHUNK_BYTES, messageBytes: 0, chunks: 0 }
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

  /** For messages: what the server has not done yet. */
  get waitingFor(): string {
    return {
      hello: 'Acknowledge',
      opening: 'OpenSecureChannelResponse',
      asking: 'the response',
      done: 'nothing',
    }[this.#state]
  }

  /** The first thing to send. */
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
   * Takes bytes as they come.
   * @throws OpcuaProtocolError, OpcuaServiceError
   */
  *receive(bytes: Buffer): Generator<Turn, void, void> {
    if (this.#state === 'done') return
    for (const frame of this.#frames.push(bytes)) {
      const turn = this.#take(frame)
      if (turn !== undefined) yield turn
      // Whatever comes after the answer is not for us.
      if (turn?.response !== undefined) return
    }
  }

  #take(frame: Frame): Turn | undefined {
    const { type } = frame
    if (type === 'ERR') throw errorOf(frame)
    if (this.#state === 'hello' && type === 'ACK') return this.#acknowledged(frame)
    if (this.#state === 'opening' && type === 'OPN') return this.#opened(frame)
    if (this.#state === 'asking' && type === 'MSG') return this.#answered(frame)
    throw new OpcuaProtocolError('unexpected-message', `${type} came instead of ${this.waitingFor}`)
  }

  #acknowledged({ mark, body }: Frame): Turn {
    expectWhole('ACK', mark)
    const reader = new BinaryReader(body)
    reader.uint32() // Its version: any is to be taken (7.1.2.4).
    const chunkBytes = reader.uint32()
    const sendBytes = reader.uint32()
    for (const size of [chunkBytes, sendBytes]) {
      if (size < LEAST_CHUNK_BYTES) {
        throw new OpcuaProtocolError(
          'wrong-length',
          `Acknowledge offers buffers of ${size} bytes, less than ${LEAST_CHUNK_BYTES}`,
        )
      }
    }
    // It may not raise what Hello offered; who does is held to it.
    this.#theirs = {
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
    // Version 0, Issue, MessageSecurityMode None, no nonce.
    message.uint32(0).uint32(0).uint32(1).byteString(null).uint32(CHANNEL_LIFETIME_MS)
    return { send: encodeFrame('OPN', 'F', message.bytes()) }
  }

  #opened({ mark, body }: Frame): Turn {
    expectWhole('OPN', mark)
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
    this.#state = 'asking'
    return { send: Buffer.concat(this.#requestChunks()) }
  }

  #requestChunks(): Buffer[] {
    const { request } = this.#options
    const room = this.#theirs.chunkBytes - CHUNK_HEADERS_BYTES
    const count = Math.ceil(request.length / room)
    const { messageBytes, chunks } = this.#theirs
    if ((messageBytes > 0 && request.length > messageBytes) || (chunks > 0 && count > chunks)) {
      throw new OpcuaProtocolError(
        'request-too-large',
        `the request has ${request.length} bytes in ${count} chunks; the server takes ${messageBytes} bytes in ${chunks} chunks`,
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

  #answered({ mark, body }: Frame): Turn | undefined {
    const reader = new BinaryReader(body)
    const channelId = reader.uint32()
    const tokenId = reader.uint32()
    if (channelId !== this.#channelId || tokenId !== this.#tokenId) {
      throw new OpcuaProtocolError(
        'wrong-channel',
        `a chunk is for channel ${channelId}, token ${tokenId}; ours are ${this.#channelId} and ${this.#tokenId}`,
      )
    }
    this.#checkSequence(reader.uint32(), reader.uint32(), REQUEST_ID)
    const part = body.subarray(body.length - reader.remaining)
    if (mark === 'A') throw abortOf(reader)
    this.#chunks.push(part)
    this.#bytes += part.length
    if (this.#chunks.length > this.#limits.chunks) {
      throw new OpcuaProtocolError(
        'too-many-chunks',
        `the answer has more than ${this.#limits.chunks} chunks`,
      )
    }
    if (this.#bytes > this.#limits.messageBytes) {
      throw new OpcuaProtocolError(
        'message-too-large',
        `the answer has more than ${this.#limits.messageBytes} bytes`,
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

  #checkSequence(number: number, requestId: number, wanted: number): void {
    const before = this.#received
    const rolledOver =
      before !== undefined && before > 0xffff_ffff - SEQUENCE_ROLLOVER && number < SEQUENCE_ROLLOVER
    if (before !== undefined && number !== before + 1 && !rolledOver) {
      throw new OpcuaProtocolError(
        'wrong-sequence-number',
        `a chunk has the sequence number ${number} after ${before}`,
      )
    }
    this.#received = number
    if (requestId !== wanted) {
      throw new OpcuaProtocolError(
        'wrong-request',
        `a chunk answers request ${requestId} instead of ${wanted}`,
      )
    }
  }
}

function expectWhole(type: string, mark: string): void {
  // 6.7.2.2: only MSG comes in chunks.
  if (mark !== 'F') throw new OpcuaProtocolError('unexpected-message', `${type} came in chunks`)
}

/** 7.1.2.5: the server gives the connection up. */
function errorOf({ body }: Frame): OpcuaServiceError {
  const { code, reason } = readFailure(new BinaryReader(body))
  return new OpcuaServiceError(code, `the server refuses: ${statusName(code)}${reason}`)
}

/** 6.7.3: the server gives its answer up. */
function abortOf(reader: BinaryReader): OpcuaServiceError {
  const { code, reason } = readFailure(reader)
  return new OpcuaServiceError(
    code,
    `the server broke its answer off: ${statusName(code)}${reason}`,
  )
}

function readFailure(reader: BinaryReader): { readonly code: number; readonly reason: string } {
  const code = reader.uint32()
  const text = reader.string().slice(0, 200)
  return { code, reason: text === '' ? '' : `, ${JSON.stringify(text)}` }
}
