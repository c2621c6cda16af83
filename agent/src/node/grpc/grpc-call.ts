import { messageBytes } from './answer-frames.js'
import type { GrpcMethod, GrpcStream } from './grpc-service.js'
import { RequestMessage } from './request-message.js'

interface UnsentMessage {
  readonly bytes: Buffer
  sent(): void
}

/** A call that is not over. */
export class GrpcCall implements GrpcStream {
  readonly stream: number
  readonly method: GrpcMethod | undefined
  /** Undefined when the client has sent all of it. */
  request: RequestMessage | undefined = new RequestMessage()
  /** What the client has sent since its window was opened, in bytes. */
  received = 0
  /** What the client takes of this call, in bytes. */
  window: number
  /** Whether a unary method works on the answer. */
  isRunning = false
  isEnding = false
  onCancel: (() => void) | undefined
  readonly #unsent: UnsentMessage[] = []
  readonly #flush: (call: GrpcCall) => void
  #isOver = false

  /** @param flush called when there is more to send */
  constructor(
    stream: number,
    method: GrpcMethod | undefined,
    window: number,
    flush: (call: GrpcCall) => void,
  ) {
    this.stream = stream
    this.method = method
    this.window = window
    this.#flush = flush
  }

  write(message: Uint8Array): Promise<void> {
    if (this.#isOver || this.isEnding) return Promise.resolve()
    return new Promise((sent) => {
      this.#unsent.push({ bytes: messageBytes(message), sent })
      this.#flush(this)
    })
  }

  end(): void {
    if (this.#isOver) return
    this.isEnding = true
    this.#flush(this)
  }

  /** Whether messages wait for the window of the client. */
  get hasUnsent(): boolean {
    return this.#unsent.length > 0
  }

  /** Takes bytes of the messages. @returns nothing if there are none, or none are asked for */
  take(maxBytes: number): { readonly bytes: Buffer; sent(): void } | undefined {
    const [first] = this.#unsent
    if (first === undefined || maxBytes <= 0) return undefined
    if (first.bytes.length <= maxBytes) return this.#unsent.shift()
    this.#unsent[0] = { ...first, bytes: first.bytes.subarray(maxBytes) }
    return { bytes: first.bytes.subarray(0, maxBytes), sent: () => undefined }
  }

  /** After this call nothing is sent. */
  close(): void {
    this.#isOver = true
    for (const { sent } of this.#unsent.splice(0)) sent()
  }
}
