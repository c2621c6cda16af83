import { connectProblem, messageOf, NO_CHANNELZ, systemClock } from '@akrijs/runtime'
import { Client, credentials, Metadata, type MethodDefinition, status } from '@grpc/grpc-js'
import { KubeletUnavailableError } from '../errors.js'

const { CANCELLED, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE } = status

/** The longest time of one call, in milliseconds. */
const ANSWER_MS = 10_000
/** The size limit of an answer, in bytes, as in the kubelet's own clients. */
const MAX_ANSWER = 16 * 1024 * 1024

/**
 * A gRPC service of this node behind a unix socket. Calls at the same time share one client, and so
 * one connection, which ends with the last of them.
 */
export class LocalService {
  readonly #socket: string
  #shared: { readonly client: Client; users: number } | undefined

  constructor(socket: string) {
    this.#socket = socket
  }

  /**
   * @param failure the beginning of an error's message
   * @throws KubeletUnavailableError if the service refuses, or does not answer within ten seconds
   */
  async ask<Request, Response>(
    failure: string,
    { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Response>,
    request: Request,
    signal: AbortSignal,
  ): Promise<Response> {
    this.#shared ??= { client: this.#open(), users: 0 }
    const shared = this.#shared
    shared.users++
    const deadline = systemClock.wallMs() + ANSWER_MS
    let cancel = () => {}
    try {
      return await new Promise<Response>((resolve, reject) => {
        const running = shared.client.makeUnaryRequest(
          ...([path, requestSerialize, responseDeserialize, request] as const),
          ...([new Metadata(), { deadline }] as const),
          (error, response) => (error ? reject(error) : resolve(response as Response)),
        )
        cancel = () => running.cancel()
        if (signal.aborted) cancel()
        signal.addEventListener('abort', cancel)
      })
    } catch (error) {
      // Another process may serve the socket by now. The next call opens a connection.
      if (this.#shared === shared) this.#shared = undefined
      const text = messageOf(error)
      const problem = connectProblem(text)
      const where = problem === text ? '' : ` at ${this.#socket}`
      throw new KubeletUnavailableError(`${failure}${where}: ${problem}`, { cause: error })
    } finally {
      signal.removeEventListener('abort', cancel)
      shared.users--
      if (shared.users === 0) {
        if (this.#shared === shared) this.#shared = undefined
        shared.client.close()
      }
    }
  }

  #open(): Client {
    return new Client(`unix:${this.#socket}`, credentials.createInsecure(), {
      ...NO_CHANNELZ,
      'grpc.max_receive_message_length': MAX_ANSWER,
      // Otherwise the next client would share the connection and the back-off of this client.
      'grpc.use_local_subchannel_pool': 1,
    })
  }
}

/** Codes of calls that end without an answer of the server. */
const NO_ANSWER = [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL]

/** Whether the server itself has refused the call. */
export function isAnswerOfServer(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' && !NO_ANSWER.includes(code)
}
