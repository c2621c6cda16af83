import type { Socket } from 'node:net'
import { status } from '@grpc/grpc-js'
import { ProtocolViolationError } from '../../errors.js'
import { failureFrame, okFrame, openingFrame, unsupportedFrame } from './answer-frames.js'
import {
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  frame,
  goAwayFrame,
  Http2Error,
  MAX_FRAME_BYTES,
  numberFrame,
  settingsFrame,
  withoutPadding,
} from './frames.js'
import { GrpcCall } from './grpc-call.js'
import type { GrpcService, GrpcStatus } from './grpc-service.js'
import { HeaderDecoder } from './header-decoder.js'
import type { Field } from './header-table.js'
import { isPseudo, requestHeader } from './request-header.js'

/** Settings of HTTP/2 (RFC 9113, 6.5.2). */
const Setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxStreams: 3,
  initialWindow: 4,
  maxFrame: 5,
} as const

/** The calls of a connection that are not over. */
const MAX_CALLS = 100
/** The longest header, as it comes. */
const MAX_HEADER_BYTES = 16_384
/** The requests of a connection that are not complete: two of the longest. */
const MAX_REQUEST_BYTES = 8 * 1024 * 1024
/** Frames that answer a client which does not read them. */
const MAX_UNREAD_REPLIES = 1000
const WINDOW_BYTES = 65_535
const MAX_WINDOW_BYTES = 0x7fff_ffff
const MAX_FRAME_SETTING = 0xff_ffff
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const OPENING = settingsFrame([
  // What a client would repeat takes more memory than it saves: calls are rare.
  [Setting.headerTableSize, 0],
  [Setting.maxStreams, MAX_CALLS],
])
const SETTINGS_ACK = frame(FrameType.settings, Flag.ack, 0, Buffer.alloc(0))

/** A header of which frames are missing. */
interface OpenHeader {
  readonly stream: number
  readonly isEnd: boolean
  readonly parts: Buffer[]
  bytes: number
}

/**
 * A connection of a gRPC client, without TLS: the part of HTTP/2 (RFC 9113) that a gRPC server
 * needs. The kubelet keeps a connection to each device plugin, and `node:http2` with grpc-js takes
 * 40 kB for each.
 */
export class GrpcConnection {
  readonly #socket: Socket
  readonly #service: GrpcService
  readonly #frames = new FrameReader()
  readonly #headers = new HeaderDecoder()
  readonly #calls = new Map<number, GrpcCall>()
  #hasPreface = false
  #hasSettings = false
  #lastStream = 0
  #header: OpenHeader | undefined
  /** Calls that the client has cancelled, and whose method still runs. */
  #abandoned = 0
  #unreadReplies = 0
  /** What the client takes of all calls, in bytes. */
  #window = WINDOW_BYTES
  #initialWindow = WINDOW_BYTES
  #maxFrame = MAX_FRAME_BYTES
  /** What the client has sent since its window was opened, in bytes. */
  #received = 0

  constructor(socket: Socket, service: GrpcService) {
    this.#socket = socket
    this.#service = service
    socket.on('data', (chunk) => this.#receive(chunk))
    socket.on('drain', () => this.#flushAll())
    // The end of a connection is no failure of the server. `close` follows.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      for (const call of [...this.#calls.values()]) this.#cancel(call)
    })
    socket.write(OPENING)
  }

  /** Lets the client know that there will be no further call. */
  goAway(): void {
    this.#reply(goAwayFrame(this.#lastStream, Http2Error.none))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #receive(chunk: Buffer): void {
    // The answers to a chunk go to the kernel together.
    this.#socket.cork()
    try {
      this.#read(chunk)
      this.#socket.uncork()
    } catch (error) {
      this.#socket.uncork()
      if (!(error instanceof ProtocolViolationError)) throw error
      this.#service.violated(error)
      this.#reply(goAwayFrame(this.#lastStream, error.http2Code))
      this.#socket.destroy()
    }
  }

  #read(chunk: Buffer): void {
    this.#frames.add(chunk)
    if (!this.#hasPreface) {
      const preface = this.#frames.take(PREFACE.length)
      if (preface === undefined) return
      if (!preface.equals(PREFACE)) throw violation('the client does not speak HTTP/2')
      this.#hasPreface = true
    }
    while (!this.#socket.destroyed) {
      const next = this.#frames.next()
      if (next === undefined) return
      this.#handle(next)
      if (this.#unreadReplies > MAX_UNREAD_REPLIES)
        throw violation('the client does not read', Http2Error.enhanceYourCalm)
    }
  }

  #handle(next: Frame): void {
    const { type } = next
    if (this.#header !== undefined && type !== FrameType.continuation)
      throw violation('a header is not complete')
    if (!this.#hasSettings && type !== FrameType.settings)
      throw violation('the first frame has no settings')
    if (type === FrameType.data) this.#readData(next)
    else if (type === FrameType.headers) this.#readHeader(next)
    else if (type === FrameType.continuation) this.#readContinuation(next)
    else if (type === FrameType.resetStream) this.#readReset(next)
    else if (type === FrameType.settings) this.#readSettings(next)
    else if (type === FrameType.ping) this.#readPing(next)
    else if (type === FrameType.windowUpdate) this.#readWindow(next)
    else if (type === FrameType.pushPromise) throw violation('a client cannot push')
    else if (type === FrameType.priority) this.#readPriority(next)
    else if (type === FrameType.goAway) this.#readGoAway(next)
    // An extension: there is nothing to do.
  }

  #readData(data: Frame): void {
    const { stream, payload, flags } = data
    if (this.#isIdle(stream)) throw violation('data of no call')
    const message = withoutPadding(data)
    this.#received = this.#openWindow(0, this.#received + payload.length)
    const call = this.#calls.get(stream)
    // The client may not know yet that its call is over.
    if (call === undefined) return
    if (call.request === undefined)
      throw violation('data after the end of a request', Http2Error.streamClosed)
    const problem = this.#isFull(message.length) ? FULL : call.request.add(message)
    if (problem !== undefined) this.#fail(call, problem)
    else if ((flags & Flag.endStream) !== 0) this.#start(call)
    else call.received = this.#openWindow(stream, call.received + payload.length)
  }

  #isFull(more: number): boolean {
    let bytes = more
    for (const { request } of this.#calls.values()) bytes += request?.length ?? 0
    return bytes > MAX_REQUEST_BYTES
  }

  /** Whether the client has not opened the stream. */
  #isIdle(stream: number): boolean {
    return stream % 2 === 0 || stream > this.#lastStream
  }

  /** Opens the window of the client when half of it is used. @returns what is used then */
  #openWindow(stream: number, received: number): number {
    if (received < WINDOW_BYTES / 2) return received
    this.#reply(numberFrame(FrameType.windowUpdate, stream, received))
    return 0
  }

  #readHeader(header: Frame): void {
    const { stream, flags } = header
    if (stream % 2 === 0) throw violation('a stream of a client has an odd number')
    let block = withoutPadding(header)
    if ((flags & Flag.priority) !== 0) {
      if (block.length < 5) throw violation('a priority is too short', Http2Error.frameSize)
      block = block.subarray(5)
    }
    const isEnd = (flags & Flag.endStream) !== 0
    this.#header = { stream, isEnd, parts: [], bytes: 0 }
    this.#addToHeader(this.#header, block, flags)
  }

  #readContinuation({ stream, flags, payload }: Frame): void {
    if (this.#header?.stream !== stream) throw violation('there is no header to continue')
    this.#addToHeader(this.#header, payload, flags)
  }

  #addToHeader(header: OpenHeader, block: Buffer, flags: number): void {
    header.parts.push(block)
    // A part without bytes takes memory too.
    header.bytes += Math.max(block.length, 1)
    if (header.bytes > MAX_HEADER_BYTES)
      throw violation('a header is too long', Http2Error.enhanceYourCalm)
    if ((flags & Flag.endHeaders) === 0) return
    this.#header = undefined
    // A header that changes nothing can change what the next header means.
    const fields = this.#headers.decode(Buffer.concat(header.parts))
    if (header.stream > this.#lastStream) this.#open(header, fields)
    else this.#readTrailer(header, fields)
  }

  #readTrailer({ stream, isEnd }: OpenHeader, fields: readonly Field[]): void {
    const call = this.#calls.get(stream)
    const isRequest = fields.some(([name]) => isPseudo(name))
    if (call?.request === undefined) {
      // The client may not know yet that its call is over, but it does not use a number twice.
      if (call === undefined && !isRequest) return
      throw violation('a header of a closed stream', Http2Error.streamClosed)
    }
    if (!isEnd || isRequest) throw violation('a call has two headers')
    this.#start(call)
  }

  #open({ stream, isEnd }: OpenHeader, fields: readonly Field[]): void {
    this.#lastStream = stream
    const header = requestHeader(fields)
    if (header === undefined) {
      this.#reply(numberFrame(FrameType.resetStream, stream, Http2Error.protocol))
      return
    }
    if (this.#calls.size + this.#abandoned >= MAX_CALLS) {
      this.#reply(numberFrame(FrameType.resetStream, stream, Http2Error.refusedStream))
      return
    }
    const method = this.#service.method(header.get(':path') ?? '')
    const call = new GrpcCall(stream, method, this.#initialWindow, this.#flush)
    this.#calls.set(stream, call)
    if (!/^application\/grpc(?:[+;]|$)/.test(header.get('content-type') ?? ''))
      this.#finish(call, unsupportedFrame(stream))
    else if (method === undefined)
      this.#fail(call, { code: status.UNIMPLEMENTED, details: 'there is no such method' })
    else if (isEnd) this.#start(call)
  }

  /** Runs the method: the client has sent its request. */
  #start(call: GrpcCall): void {
    const { method, request } = call
    if (method === undefined || request === undefined) return
    call.request = undefined
    const message = request.end()
    if (!Buffer.isBuffer(message)) {
      this.#fail(call, message)
    } else if (method.kind === 'stream') {
      this.#reply(openingFrame(call.stream))
      call.onCancel = method.open(call)
    } else {
      call.isRunning = true
      method.answer(message).then(
        (answer) => this.#succeed(call, answer),
        (error: unknown) => this.#fail(call, this.#service.statusOf(error)),
      )
    }
  }

  #succeed(call: GrpcCall, answer: Uint8Array): void {
    if (this.#endRun(call)) return
    this.#socket.cork()
    this.#socket.write(openingFrame(call.stream))
    void call.write(answer)
    call.end()
    this.#socket.uncork()
  }

  #fail(call: GrpcCall, failure: GrpcStatus): void {
    if (!this.#endRun(call)) this.#finish(call, failureFrame(call.stream, failure))
  }

  /** @returns whether the client has cancelled the call */
  #endRun(call: GrpcCall): boolean {
    const isAbandoned = !this.#calls.has(call.stream)
    if (isAbandoned && call.isRunning) this.#abandoned--
    call.isRunning = false
    return isAbandoned
  }

  /** Sends as much as the client takes and reads. */
  readonly #flush = (call: GrpcCall): void => {
    this.#socket.cork()
    while (!this.#socket.writableNeedDrain) {
      const next = call.take(Math.min(call.window, this.#window, this.#maxFrame))
      if (next === undefined) break
      const { bytes, sent } = next
      call.window -= bytes.length
      this.#window -= bytes.length
      // The callback also comes when the connection ends before.
      this.#socket.write(frame(FrameType.data, 0, call.stream, bytes), () => sent())
    }
    if (call.isEnding && !call.hasUnsent) this.#finish(call, okFrame(call.stream))
    this.#socket.uncork()
  }

  #flushAll(): void {
    for (const call of [...this.#calls.values()]) if (call.hasUnsent) this.#flush(call)
  }

  #finish(call: GrpcCall, last: Buffer): void {
    this.#calls.delete(call.stream)
    call.close()
    this.#reply(last)
    // The client need not send the rest of its request (RFC 9113, 8.1).
    if (call.request !== undefined)
      this.#reply(numberFrame(FrameType.resetStream, call.stream, Http2Error.none))
  }

  #cancel(call: GrpcCall): void {
    this.#calls.delete(call.stream)
    if (call.isRunning) this.#abandoned++
    call.close()
    call.onCancel?.()
  }

  #readReset({ stream, payload }: Frame): void {
    if (payload.length !== 4) throw violation('a reset has 4 bytes', Http2Error.frameSize)
    if (this.#isIdle(stream)) throw violation('a reset of no call')
    const call = this.#calls.get(stream)
    if (call !== undefined) this.#cancel(call)
  }

  #readSettings({ stream, flags, payload }: Frame): void {
    if (stream !== 0) throw violation('settings of a call')
    const isAck = (flags & Flag.ack) !== 0
    if (payload.length % 6 !== 0 || (isAck && payload.length > 0))
      throw violation('settings of a wrong size', Http2Error.frameSize)
    if (isAck) return
    this.#hasSettings = true
    const windowBefore = this.#initialWindow
    for (let at = 0; at < payload.length; at += 6)
      this.#set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2))
    // Once for all values of the frame: a frame has room for thousands of them.
    const more = this.#initialWindow - windowBefore
    if (more !== 0)
      for (const call of [...this.#calls.values()])
        if (!this.#widen(call, more)) throw violation('the window is too large', FLOW)
    this.#reply(SETTINGS_ACK)
  }

  #set(setting: number, value: number): void {
    if (setting === Setting.maxFrame) {
      if (value < MAX_FRAME_BYTES || value > MAX_FRAME_SETTING)
        throw violation(`frames of ${value} bytes`)
      this.#maxFrame = value
    } else if (setting === Setting.initialWindow) {
      if (value > MAX_WINDOW_BYTES) throw violation(`a window of ${value} bytes`, FLOW)
      this.#initialWindow = value
    } else if (setting === Setting.enablePush) {
      if (value > 1) throw violation(`a push setting of ${value}`)
    }
  }

  /** @returns whether the window is not too large */
  #widen(call: GrpcCall, bytes: number): boolean {
    if (call.window + bytes > MAX_WINDOW_BYTES) return false
    call.window += bytes
    if (call.hasUnsent) this.#flush(call)
    return true
  }

  #readPriority({ stream, payload }: Frame): void {
    if (stream === 0) throw violation('a priority of no call')
    if (payload.length !== 5) throw violation('a priority has 5 bytes', Http2Error.frameSize)
  }

  #readGoAway({ stream, payload }: Frame): void {
    if (stream !== 0) throw violation('the end of all calls belongs to the connection')
    if (payload.length < 8) throw violation('the end is too short', Http2Error.frameSize)
  }

  #readPing({ stream, flags, payload }: Frame): void {
    if (stream !== 0) throw violation('a ping of a call')
    if (payload.length !== 8) throw violation('a ping has 8 bytes', Http2Error.frameSize)
    if ((flags & Flag.ack) === 0) this.#reply(frame(FrameType.ping, Flag.ack, 0, payload))
  }

  #readWindow({ stream, payload }: Frame): void {
    if (payload.length !== 4) throw violation('a window has 4 bytes', Http2Error.frameSize)
    if (stream !== 0 && this.#isIdle(stream)) throw violation('a window of no call')
    const bytes = payload.readUInt32BE(0) & MAX_WINDOW_BYTES
    if (bytes === 0) throw violation('a window does not grow')
    if (stream !== 0) {
      const call = this.#calls.get(stream)
      if (call === undefined || this.#widen(call, bytes)) return
      this.#cancel(call)
      this.#reply(numberFrame(FrameType.resetStream, stream, FLOW))
      return
    }
    this.#window += bytes
    if (this.#window > MAX_WINDOW_BYTES) throw violation('the window is too large', FLOW)
    this.#flushAll()
  }

  /** Sends a frame that only answers frames of the client. */
  #reply(bytes: Buffer): void {
    this.#unreadReplies++
    this.#socket.write(bytes, () => this.#unreadReplies--)
  }
}

const FLOW = Http2Error.flowControl
const FULL: GrpcStatus = {
  code: status.RESOURCE_EXHAUSTED,
  details: `the requests of the connection have more than ${MAX_REQUEST_BYTES} bytes`,
}

function violation(what: string, code: number = Http2Error.protocol): ProtocolViolationError {
  return new ProtocolViolationError(what, code)
}
