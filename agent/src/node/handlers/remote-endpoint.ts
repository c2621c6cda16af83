import { type DiscoverResponse, DiscoveryHandlerClient } from '@akrijs/proto/discovery'
import { Latest, messageOf } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/runtime/handler'
import { checkDeviceList, MAX_LIST_BYTES, propertiesToWire } from '@akrijs/sdk/host'
import { credentials, type ServiceError, status } from '@grpc/grpc-js'
import {
  type DiscoverRequest,
  DiscoveryFailedError,
  type HandlerEndpoint,
  remoteUid,
} from '../../ports/handler-endpoint.js'

/** The address of a registered handler. */
export type EndpointAddress =
  | { readonly type: 'unix'; readonly path: string }
  | { readonly type: 'network'; readonly host: string }

/** A handler in another process, over gRPC. */
export class RemoteEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly shared: boolean
  readonly #target: string

  constructor(name: string, shared: boolean, address: EndpointAddress) {
    this.name = name
    this.shared = shared
    this.uid = remoteUid(name, address.type === 'unix' ? address.path : `http://${address.host}`)
    this.#target = address.type === 'unix' ? `unix:${address.path}` : address.host
  }

  async *discover(
    { details, properties }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<DeviceList, void, void> {
    if (signal.aborted) return
    const client = new DiscoveryHandlerClient(this.#target, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_LIST_BYTES,
      'grpc.enable_retries': 0,
      // A node that lost its network does not close the connection.
      'grpc.keepalive_time_ms': 30_000,
      'grpc.keepalive_timeout_ms': 10_000,
    })
    const stream = client.discover({
      discoveryDetails: details,
      discoveryProperties: propertiesToWire(properties),
    })
    const lists = new Latest<DeviceList>()
    const onAbort = () => {
      stream.cancel()
      lists.end()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    let answered = false
    stream.on('metadata', () => {
      answered = true
    })
    stream.on('data', (response: DiscoverResponse) => {
      answered = true
      try {
        lists.push(checkDeviceList(response.devices))
      } catch (error) {
        lists.end(
          new DiscoveryFailedError('failed', `handler ${this.uid}: ${messageOf(error)}`, {
            cause: error,
          }),
        )
        stream.cancel()
      }
    })
    stream.on('error', (error: ServiceError) => lists.end(this.#failure(error, answered)))
    stream.on('end', () =>
      lists.end(new DiscoveryFailedError('failed', `handler ${this.uid} ended its stream`)),
    )
    try {
      yield* lists
    } finally {
      signal.removeEventListener('abort', onAbort)
      stream.cancel()
      client.close()
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
