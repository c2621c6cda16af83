import { status } from '@grpc/grpc-js'
import type { GrpcStatus } from './grpc-service.js'

/** The longest request: the default limit of gRPC implementations for one message. */
const MAX_BYTES = 4 * 1024 * 1024
const PREFIX_BYTES = 5

/** The one message of a request, as it comes. */
export class RequestMessage {
  // Parts of chunks would keep the whole chunks, with all that came between the parts.
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0

  /** What has come, in bytes. */
  get length(): number {
    return this.#length
  }

  /** @returns why the call fails; undefined if it goes on */
  add(chunk: Buffer): GrpcStatus | undefined {
    const length = this.#length + chunk.length
    if (length > PREFIX_BYTES + MAX_BYTES)
      return failure(status.RESOURCE_EXHAUSTED, `the request has more than ${MAX_BYTES} bytes`)
    if (length > this.#bytes.length) {
      const bytes = Buffer.allocUnsafe(Math.max(length, 2 * this.#length))
      this.#bytes.copy(bytes, 0, 0, this.#length)
      this.#bytes = bytes
    }
    chunk.copy(this.#bytes, this.#length)
    this.#length = length
    return undefined
  }

  /** Call it when the client has sent all. @returns the message, or why the call fails */
  end(): Buffer | GrpcStatus {
    const bytes = this.#bytes.subarray(0, this.#length)
    if (bytes.length < PREFIX_BYTES || bytes.length - PREFIX_BYTES !== bytes.readUInt32BE(1))
      return failure(status.INTERNAL, 'the request is not one message')
    if (bytes[0] !== 0) return failure(status.UNIMPLEMENTED, 'the request is compressed')
    return bytes.subarray(PREFIX_BYTES)
  }
}

function failure(code: status, details: string): GrpcStatus {
  return { code, details }
}
