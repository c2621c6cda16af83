import { systemClock } from '@akrijs/runtime'
import { type Client, credentials, Metadata } from '@grpc/grpc-js'
import { NO_CHANNELZ } from '../channelz.js'

/** How long a service of this node may take to answer, in milliseconds. */
const ANSWER_MS = 10_000

type Done<T> = (error: Error | null, response: T) => void

/** What is asked at the same time shares one client, and with it one connection. */
interface SharedClient<C> {
  readonly client: C
  users: number
}

/** A gRPC service of this node, behind a unix socket. A connection lasts no longer than what is being asked over it. */
export class LocalService<C extends Client> {
  readonly #open: () => C
  #shared: SharedClient<C> | undefined

  /** @param maxBytes the largest answer that is read */
  constructor(
    Service: new (
      address: string,
      channel: ReturnType<typeof credentials.createInsecure>,
      options: object,
    ) => C,
    socket: string,
    maxBytes = 4 * 1024 * 1024,
  ) {
    const options = {
      ...NO_CHANNELZ,
      'grpc.max_receive_message_length': maxBytes,
      // Else a client that is opened anew shares the connection, and the back-off, of the one before.
      'grpc.use_local_subchannel_pool': 1,
    }
    this.#open = () => new Service(`unix:${socket}`, credentials.createInsecure(), options)
  }

  /** Rejects with the service's error, or after ten seconds. */
  async ask<T>(
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
      // Whoever serves may be another process by now: the next one to ask gets a connection of its own.
      this.#leave(shared)
      throw error
    } finally {
      shared.users--
      if (shared.users === 0) {
        this.#leave(shared)
        shared.client.close()
      }
    }
  }

  #leave(shared: SharedClient<C>): void {
    if (this.#shared === shared) this.#shared = undefined
  }
}
