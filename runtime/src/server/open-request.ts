import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BoundedConnection } from './bounded-listener.js'
import { GrowingBuffer } from './growing-buffer.js'
import { HttpRefusal } from './http-refusal.js'
import type { MemoryBudget, MemoryShare } from './memory-budget.js'

/** The least mean length of the pieces of a body, in bytes: each piece costs processor time. */
const LEAST_PIECE = 64
/** The pieces of a body that may be shorter. */
const FREE_PIECES = 200
/** The bytes that a client may send after its refusal, until it reads the refusal. */
const UNREAD_BYTES = 64 * 1024
/** A constant: an error of each request would cost more than the signal. */
const CLOSED = new DOMException('the connection has closed', 'AbortError')

interface OpenRequestOptions {
  readonly connection: BoundedConnection
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly budget: MemoryBudget
  /** The longest body, in bytes. */
  readonly longest: number
}

/** A request from its headers until its answer has been sent: its body, memory and refusal. */
export class OpenRequest {
  readonly #options: OpenRequestOptions
  readonly #memory: MemoryShare
  readonly #stop = new AbortController()
  readonly #body: GrowingBuffer
  readonly #received: Promise<void>
  #onRefused: (refusal: HttpRefusal) => void = () => {}
  #refusal: HttpRefusal | undefined
  #pieces = 0
  #bytes = 0

  constructor(options: OpenRequestOptions) {
    this.#options = options
    const { connection, request, response, budget, longest } = options
    const length = Number(request.headers['content-length'] ?? longest)
    this.#body = new GrowingBuffer(Math.min(length, longest))
    this.#memory = budget.open(connection.peer, () => {
      if (response.headersSent) request.socket.destroy()
      else this.refuse(new HttpRefusal(503, 'too much data in open requests'))
    })
    response.once('close', () => this.#stop.abort(CLOSED))
    // Not `for await`: an early exit ends the connection before the client reads the refusal. The
    // listener stays after a refusal: a stream without a reader keeps small pieces in memory.
    request.on('data', (piece: Buffer) => this.#receive(piece))
    this.#received = new Promise((resolve, reject) => {
      request.once('end', resolve)
      request.once('close', () => {
        if (!request.readableEnded) reject(new HttpRefusal(400, 'the request has no end'))
      })
    })
    this.#received.catch(() => {})
    if (length > longest) this.refuse(this.#tooLarge())
  }

  /** Aborted when the connection has closed, or the request is refused. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** The whole body. */
  async body(): Promise<Buffer> {
    await this.#received
    return this.#body.bytes()
  }

  refuse(refusal: HttpRefusal): void {
    this.#refusal ??= refusal
    this.#memory.set(0)
    this.#body.clear()
    this.#onRefused(this.#refusal)
    this.#stop.abort(this.#refusal)
  }

  /** @throws HttpRefusal as soon as the request is refused */
  unlessRefused<T>(work: () => Promise<T>): Promise<T> {
    // Not `Promise.race`: the promise of the refusal would keep each result in memory.
    return new Promise((resolve, reject) => {
      if (this.#refusal !== undefined) return reject(this.#refusal)
      this.#onRefused = reject
      work().then(resolve, reject)
    })
  }

  /**
   * Counts an answer in place of the body.
   * @throws HttpRefusal if the request was refused, or has to give way
   */
  count(answer: Buffer): void {
    this.#body.clear()
    this.#memory.set(answer.length)
    if (this.#refusal !== undefined) throw this.#refusal
  }

  /** The answer has been sent. */
  release(): void {
    this.#memory.release()
  }

  #receive(piece: Buffer): void {
    const { request, response, longest } = this.#options
    this.#pieces++
    this.#bytes += piece.length
    const isSplit = (this.#pieces - FREE_PIECES) * LEAST_PIECE > this.#bytes
    if (isSplit || this.#bytes > longest + UNREAD_BYTES) request.socket.destroy()
    else if (this.#refusal !== undefined || response.headersSent) return
    else if (this.#bytes > longest) this.refuse(this.#tooLarge())
    else if (this.#memory.set(this.#body.capacityWith(piece.length))) this.#body.append(piece)
  }

  #tooLarge(): HttpRefusal {
    const { longest } = this.#options
    return new HttpRefusal(
      413,
      longest === 0 ? 'send no body' : `the body has more than ${longest} bytes`,
    )
  }
}
