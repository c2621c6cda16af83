import { connectProblem, messageOf, NO_CHANNELZ, systemClock } from '@akrijs/runtime'
import {
  type ChannelCredentials,
  type Client,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { KubeletUnavailableError } from '../errors.js'

/** The longest time of one call, in milliseconds. */
const ANSWER_MS = 10_000

type Done<T> = (error: Error | null, response: T) => void

/** Calls at the same time share one client, and so one connection. */
interface SharedClient<C> {
  readonly client: C
  users: number
}

/**
 * A gRPC service of this node behind a unix socket. A connection ends with the last call that uses
 * it.
 */
export class LocalService<C extends Client> {
  readonly #socket: string
  readonly #open: () => C
  #shared: SharedClient<C> | undefined

  /** @param maxBytes the size limit of an answer */
  constructor(
    Service: new (address: string, channel: ChannelCredentials, options: object) => C,
    socket: string,
    maxBytes = 4 * 1024 * 1024,
  ) {
    this.#socket = socket
    const options = {
      ...NO_CHANNELZ,
      'grpc.max_receive_message_length': maxBytes,
      // Otherwise the next client would share the connection and the back-off of this client.
      'grpc.use_local_subchannel_pool': 1,
    }
    this.#open = () => new Service(`unix:${socket}`, credentials.createInsecure(), options)
  }

  /**
   * @param failure the beginning of an error's message
   * @throws KubeletUnavailableError if the service refuses, or does not answer within ten seconds
   */
  async ask<T>(
    failure: string,
    signal: AbortSignal,
    call: (
      client: C,
      metadata: Metadata,
      options: { deadline: number },
      done: Done<T>,
    ) => { cancel(): void },
  ): Promise<T> {
    this.#shared ??= { client: this.#open(), users: 0 }
    const shared = this.#shared
    shared.users++
    try {
      return await new Promise<T>((resolve, reject) => {
        const running = call(
          shared.client,
          new Metadata(),
          { deadline: systemClock.wallMs() + ANSWER_MS },
          (error, response) => {
            signal.removeEventListener('abort', cancel)
            if (error) reject(error)
            else resolve(response)
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

  #retire(shared: SharedClient<C>): void {
    if (this.#shared === shared) this.#shared = undefined
  }
}

/** Codes of calls that end without an answer of the server. */
const NO_ANSWER: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.INTERNAL,
])

/** Whether the server itself has refused the call. */
export function isAnswerOfServer(error: unknown): error is ServiceError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'number' &&
    !NO_ANSWER.has(error.code)
  )
}
