import type { ProtocolViolationError } from '../../errors.js'

/** What a socket serves. */
export interface GrpcService {
  /** @returns undefined if there is no such method. @param path as `/package.Service/Method` */
  method(path: string): GrpcMethod | undefined
  /** The status of a call that failed. */
  statusOf(error: unknown): GrpcStatus
  /** A client violates the protocol. Its connection ends. */
  violated(error: ProtocolViolationError): void
}

export type GrpcMethod =
  | { readonly kind: 'unary'; answer(request: Buffer): Promise<Uint8Array> }
  | {
      readonly kind: 'stream'
      /** @returns called when the client ends the call, or its connection ends */
      open(call: GrpcStream): () => void
    }

/** A call whose answer is any number of messages. */
export interface GrpcStream {
  /** Resolves when the message is on its way to the client, or the call is over. */
  write(message: Uint8Array): Promise<void>
  /** Ends the call after the messages before. */
  end(): void
}

export interface GrpcStatus {
  /** A number of `status` in grpc-js. */
  readonly code: number
  readonly details: string
}
