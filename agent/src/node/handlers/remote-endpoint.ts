import { DiscoveryHandlerService } from '@akrijs/proto/discovery'
import { Latest, messageOf } from '@akrijs/runtime'
import { MAX_LIST_BYTES, propertiesToWire } from '@akrijs/sdk/host'
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import {
  type BoundedList,
  type DiscoverRequest,
  DiscoveryFailedError,
  type HandlerEndpoint,
  remoteUid,
} from '../../ports/handler-endpoint.js'
import { readResponse } from './discover-response.js'

/** The address of a registered handler. */
export type EndpointAddress = (
  | { readonly type: 'unix'; readonly path: string }
  /** An IP address with a port. */
  | { readonly type: 'network'; readonly host: string }
) & {
  /** @returns why the agent must not dial the address any more */
  problem(): Promise<string | undefined>
}

/** A handler in another process, over gRPC. */
export class RemoteEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly shared: boolean
  readonly #target: string
  readonly #address: EndpointAddress

  constructor(name: string, shared: boolean, address: EndpointAddress) {
    this.name = name
    this.shared = shared
    this.uid = remoteUid(name, address.type === 'unix' ? address.path : `http://${address.host}`)
    this.#address = address
    this.#target = address.type === 'unix' ? `unix:${address.path}` : address.host
  }

  async *discover(
    { details, properties, ...bound }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<BoundedList, void, void> {
    // The address may belong to another program by now.
    const problem = await this.#address.problem()
    if (signal.aborted) return
    if (problem !== undefined)
      throw new DiscoveryFailedError('unreachable', `handler ${this.uid} is not asked: ${problem}`)
    const client = new Client(this.#target, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_LIST_BYTES,
      'grpc.enable_retries': 0,
      // The request has credentials of devices: it goes to the handler directly.
      'grpc.enable_http_proxy': 0,
      // A node that lost its network does not close the connection.
      'grpc.keepalive_time_ms': 30_000,
      'grpc.keepalive_timeout_ms': 10_000,
    })
    // The stream buffers 16 messages. Only the newest is needed, so only the newest takes memory.
    let newest: Buffer = Buffer.alloc(0)
    const stream = client.makeServerStreamRequest(
      DiscoveryHandlerService.discover.path,
      DiscoveryHandlerService.discover.requestSerialize,
      (message) => {
        newest = message
        return true
      },
      { discoveryDetails: details, discoveryProperties: propertiesToWire(properties) },
    )
    const messages = new Latest<Buffer>()
    const onAbort = () => {
      stream.cancel()
      messages.end()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    let answered = false
    stream.on('metadata', () => {
      answered = true
    })
    stream.on('data', () => {
      answered = true
      // A handler cannot send faster than the agent reads.
      stream.pause()
      messages.push(newest)
    })
    stream.on('error', (error: ServiceError) => messages.end(this.#failure(error, answered)))
    stream.on('end', () =>
      messages.end(new DiscoveryFailedError('failed', `handler ${this.uid} ended its stream`)),
    )
    try {
      for await (const message of messages) {
        const list = await this.#read(message, bound, signal)
        if (signal.aborted) return
        yield list
        stream.resume()
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      stream.cancel()
      client.close()
    }
  }

  async #read(
    message: Buffer,
    bound: Pick<DiscoverRequest, 'mostDevices' | 'rank'>,
    signal: AbortSignal,
  ): Promise<BoundedList> {
    try {
      return await readResponse(message, bound, signal)
    } catch (error) {
      throw new DiscoveryFailedError('failed', `handler ${this.uid}: ${messageOf(error)}`, {
        cause: error,
      })
    }
  }

  #failure(error: ServiceError, answered: boolean): DiscoveryFailedError {
    const details = error.details || error.message
    if (error.code === status.INVALID_ARGUMENT)
      return new DiscoveryFailedError('invalid-details', details, { cause: error })
    if (error.code === status.UNAVAILABLE && !answered) {
      return new DiscoveryFailedError(
        'unreachable',
        `handler ${this.uid} cannot be reached: ${details}`,
        { cause: error },
      )
    }
    return new DiscoveryFailedError('failed', `handler ${this.uid}: ${details}`, { cause: error })
  }
}
