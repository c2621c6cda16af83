import { systemClock } from '@akrijs/sdk'
import { type Client, credentials, Metadata } from '@grpc/grpc-js'
import type { Allocations } from '../ports/kubelet.js'

/** Who knows which containers of this node have which ids. */
export interface AllocationSource {
  /** @throws KubeletUnavailableError (transient) */
  list(signal: AbortSignal): Promise<Allocations>
}

/** How long a service of this node may take to answer, in milliseconds. */
const ANSWER_MS = 10_000

type Done<T> = (error: Error | null, response: T) => void

/** Asks a service behind a unix socket one thing, over a connection of its own. */
export async function askOnce<C extends Client, T>(
  Service: new (address: string, channel: ReturnType<typeof credentials.createInsecure>, options: object) => C,
  socket: string,
  signal: AbortSignal,
  call: (client: C, metadata: Metadata, options: { deadline: number }, done: Done<T>) => { cancel(): void },
  maxBytes = 4 * 1024 * 1024,
): Promise<T> {
  const client = new Service(`unix:${socket}`, credentials.createInsecure(), { 'grpc.max_receive_message_length': maxBytes })
  try {
    return await new Promise<T>((resolve, reject) => {
      const running = call(client, new Metadata(), { deadline: systemClock.now() + ANSWER_MS }, (error, response) => {
        signal.removeEventListener('abort', cancel)
        if (error) reject(error)
        else resolve(response)
      })
      const cancel = () => running.cancel()
      if (signal.aborted) cancel()
      signal.addEventListener('abort', cancel, { once: true })
    })
  } finally {
    client.close()
  }
}
