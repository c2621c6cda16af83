import { connectProblem, messageOf, NO_CHANNELZ, systemClock } from '@akrijs/runtime'
import { Client, credentials, Metadata, type MethodDefinition, status } from '@grpc/grpc-js'
import { KubeletUnavailableError } from '../errors.js'

/** The longest time of one call, in milliseconds. */
const ANSWER_MS = 10_000

/**
 * A gRPC service of this node behind a unix socket. Calls at the same time share one client, and so
 * one connection, which ends with the last of them.
 */
export class LocalService {
  readonly #socket: string
  readonly #maxBytes: number
  #shared: { readonly client: Client; users: number } | undefined

  /** @param maxBytes the size limit of an answer */
  constructor(socket: string, maxBytes = 4 * 1024 * 1024) {
    this.#socket = socket
    this.#maxBytes = maxBytes
  }

  /**
   * @param failure the beginning of an error's message
   * @throws KubeletUnavailableError if the service refuses, or does not answer within ten seconds
   */
  async ask<Request, Response>(
    failure: string,
    method: MethodDefinition<Request, Response>,
    request: Request,
    signal: AbortSignal,
  ): Promise<Response> {
    this.#shared ??= { client: this.#open(), users: 0 }
    const shared = this.#shared
    shared.users++
    const { path, requestSerialize, responseDeserialize } = method
    const deadline = systemClock.wallMs() + ANSWER_MS
    try {
      return await new Promise<Response>((resolve, reject) => {
        const running = shared.client.makeUnaryRequest(
          ...([path, requestSerialize, responseDeserialize, request] as const),
          ...([new Metadata(), { deadline }] as const),
          (error, response) => {
            signal.removeEventListener('abort', cancel)
            if (error) reject(error)
            else resolve(response as Response)
          },
        )
        const cancel = () => running.cancel()
        if (signal.aborted) cancel()
        signal.addEventListener('abort', cancel, { once: true })
      })
    } catch (error) {
      // Another process may serve the socket by now. The next call opens a connection.
      this.#retire(shared)
      const text = messageOf(error)
      const problem = connectProblem(text)
      const where = problem === text ? '' : ` at ${this.#socket}`
      throw new KubeletUnavailableError(`${failure}${where}: ${problem}`, { cause: error })
    } finally {
      shared.users--
      if (shared.users === 0) {
        this.#retire(shared)
        shared.client.close()
      }
    }
  }

  #open(): Client {
    return new Client(`unix:${this.#socket}`, credentials.createInsecure(), {
      ...NO_CHANNELZ,
      'grpc.max_receive_message_length': this.#maxBytes,
      // Otherwise the next client would share the connection and the back-off of this client.
      'grpc.use_local_subchannel_pool': 1,
    })
  }

  #retire(shared: object): void {
    if (this.#shared === shared) this.#shared = undefined
  }
}

/** Codes of calls that end without an answer of the server. */
const NO_ANSWER: ReadonlySet<unknown> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.INTERNAL,
])

/** Whether the server itself has refused the call. */
export function isAnswerOfServer(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' && !NO_ANSWER.has(code)
}
