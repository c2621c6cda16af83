import { DiscoveryHandlerService } from '@akrijs/proto/discovery'
import { AkriError, connectProblem, messageOf } from '@akrijs/runtime'
import {
  acceptReportsHeader,
  DeviceListCheck,
  MAX_ANSWER_BYTES,
  propertiesToWire,
  sendsReports,
  sharedFrom,
} from '@akrijs/sdk/host'
import {
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { readResponse } from './discover-response.js'
import {
  type BoundedList,
  type DiscoverRequest,
  DiscoveryFailedError,
  type HandlerEndpoint,
  remoteUid,
} from './handler-endpoint.js'

export interface EndpointAddress {
  /** The path of a socket, or `http://` with an IP address and a port. */
  readonly endpoint: string
  /** The user of the socket, or the address. */
  readonly owner: string
  /** Whether something accepts connections at the address. Never rejects. */
  isServed(): Promise<boolean>
  /** @returns why the agent must not dial the address any more */
  problem(): Promise<string | undefined>
}

/**
 * Between two pings, in milliseconds: a node that lost its network, and a process that hangs, do
 * not close a connection.
 */
const KEEPALIVE_MS = 30_000
/**
 * The same for a handler that refuses frequent pings: servers of gRPC in C++, Go and Python allow
 * one in five minutes (gRPC A8), and close the connection after a few more.
 */
const SLOW_KEEPALIVE_MS = 330_000
/** How gRPC says that an answer has more than `MAX_ANSWER_BYTES`. */
const TOO_LONG = /larger than max/

/** The pause of gRPC between two connection attempts, in milliseconds. */
const RECONNECT_MS = 10

interface Registration {
  readonly shared: boolean
  readonly address: EndpointAddress
}

/**
 * A handler in another process, over gRPC. Any process that may register can register the endpoint
 * of another process again. So a registration never overrules a process that has answered and is
 * connected.
 */
export class RemoteEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly owner: string
  readonly #target: string
  #registration: Registration
  /** The latest registration while a process was connected. It can be that of the next process. */
  #next: Registration | undefined
  /** The value of `shared` that the last process has sent: its lists can be read after its end. */
  #sentShared: boolean | undefined
  #keepaliveMs = KEEPALIVE_MS
  /** The streams of the connected process that have an answer. */
  readonly #answering = new Set<ClientReadableStream<unknown>>()

  constructor(name: string, shared: boolean, address: EndpointAddress) {
    this.name = name
    const { endpoint, owner } = address
    this.uid = remoteUid(name, endpoint)
    this.#target = endpoint.startsWith('/') ? `unix:${endpoint}` : endpoint.slice('http://'.length)
    this.owner = owner
    this.#registration = { shared, address }
  }

  /** The path; undefined for an endpoint with a network address. */
  get socket(): string | undefined {
    const { endpoint } = this.#registration.address
    return endpoint.startsWith('/') ? endpoint : undefined
  }

  get shared(): boolean {
    return this.#sentShared ?? this.#registration.shared
  }

  /**
   * Takes over a further registration of this endpoint, after the end of the connected process.
   * @returns whether the registration counts now
   */
  registerAgain(other: RemoteEndpoint): boolean {
    const isConnected = this.#answering.size > 0
    this.#next = isConnected ? other.#registration : undefined
    if (!isConnected) this.#registration = other.#registration
    return !isConnected
  }

  async hasLeft(): Promise<boolean> {
    const registration = this.#registration
    const { address } = registration
    if (this.#answering.size > 0) return false
    const isThere = (await address.problem()) === undefined && (await address.isServed())
    // A process may have registered meanwhile.
    return !isThere && this.#registration === registration && this.#answering.size === 0
  }

  async *discover(
    { details, properties, ...bound }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<BoundedList, void, void> {
    // The address may belong to another program by now.
    const problem = await this.#registration.address.problem()
    if (signal.aborted) return
    if (problem !== undefined)
      throw new DiscoveryFailedError('unreachable', `handler ${this.uid} is not asked: ${problem}`)
    const client = new Client(this.#target, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
      'grpc.enable_retries': 0,
      // The sessions have a back-off, and a handler that registers again is connected at once.
      'grpc.initial_reconnect_backoff_ms': RECONNECT_MS,
      'grpc.max_reconnect_backoff_ms': RECONNECT_MS,
      // The request has credentials of devices: it goes to the handler directly.
      'grpc.enable_http_proxy': 0,
      'grpc.keepalive_time_ms': this.#keepaliveMs,
      'grpc.keepalive_timeout_ms': 10_000,
    })
    // The stream buffers 16 messages. Only the newest is needed, so only the newest takes memory.
    let newest: Buffer | undefined
    const stream = client.makeServerStreamRequest(
      DiscoveryHandlerService.discover.path,
      DiscoveryHandlerService.discover.requestSerialize,
      (message) => {
        newest = message
        return true
      },
      { discoveryDetails: details, discoveryProperties: propertiesToWire(properties) },
      Metadata.fromHttp2Headers(acceptReportsHeader()),
    )
    const onAbort = () => stream.cancel()
    signal.addEventListener('abort', onAbort, { once: true })
    let headers: Metadata | undefined
    // The agent may still be busy with a list that came before.
    const onOver = () => {
      const isLast = this.#answering.delete(stream) && this.#answering.size === 0
      if (!isLast || signal.aborted) return
      // Another process may be there from now on.
      this.#registration = this.#next ?? this.#registration
      this.#next = undefined
    }
    stream.on('metadata', (metadata: Metadata) => {
      headers = metadata
      this.#answering.add(stream)
      this.#sentShared = sharedFrom(metadata)
    })
    stream.on('error', onOver)
    stream.on('end', onOver)
    const check = new DeviceListCheck()
    try {
      let read: Buffer | undefined
      // A handler cannot send faster than the agent reads.
      for await (const _ of stream) {
        if (newest === undefined || newest === read) continue
        read = newest
        const list = await readResponse(read, bound, check)
        if (signal.aborted) return
        yield headers && sendsReports(headers) ? list : { ...list, reports: undefined }
      }
    } catch (error) {
      if (signal.aborted) return
      throw this.#failure(error, headers !== undefined)
    } finally {
      signal.removeEventListener('abort', onAbort)
      onOver()
      stream.cancel()
      client.close()
    }
    if (!signal.aborted) throw this.#failed('it ended its stream')
  }

  /** @param cause of gRPC, or of a list that is wrong */
  #failure(cause: unknown, answered: boolean): DiscoveryFailedError {
    if (AkriError.is(cause)) return this.#failed(cause.message, { cause })
    const { code, details: text } = Object(cause) as Partial<ServiceError>
    const details = text || messageOf(cause)
    if (code === status.INVALID_ARGUMENT)
      return new DiscoveryFailedError('invalid-details', details, { cause })
    // HTTP/2 has the code ENHANCE_YOUR_CALM for this. An answer that is too long has it too.
    if (code === status.RESOURCE_EXHAUSTED && !TOO_LONG.test(details))
      this.#keepaliveMs = SLOW_KEEPALIVE_MS
    if (code !== status.UNAVAILABLE || answered) return this.#failed(details, { cause })
    return new DiscoveryFailedError(
      'unreachable',
      `handler ${this.uid} cannot be reached: ${connectProblem(details)}`,
      { cause },
    )
  }

  #failed(problem: string, options?: { readonly cause: unknown }): DiscoveryFailedError {
    return new DiscoveryFailedError('failed', `handler ${this.uid}: ${problem}`, options)
  }
}
