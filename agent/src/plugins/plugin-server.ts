import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import {
  type AllocateResponse,
  type DevicePluginOptions,
  type DevicePluginServer,
  DevicePluginService,
  type Empty,
  type ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import {
  AkriError,
  type Clock,
  Latest,
  type Logger,
  MAX_SOCKET_PATH,
  messageOf,
  NO_CHANNELZ,
  objectMessage,
  runAfter,
} from '@akrijs/runtime'
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  status,
} from '@grpc/grpc-js'
import { AllocationRefusedError, KubeletUnavailableError } from '../errors.js'
import type { WithdrawOptions } from '../instances/served-instance.js'
import { PLUGIN_CALLS } from '../limits.js'
import type { AgentObserver } from '../report/observer.js'
import type { AdvertisedDevice, Resource } from '../slots/resource.js'
import type { SlotClaims } from '../slots/slot-claims.js'

export interface PluginServerOptions {
  readonly resource: Resource
  readonly claims: Pick<SlotClaims, 'allocate'>
  readonly clock: Clock
  readonly log: Logger
  readonly observer: Pick<AgentObserver, 'allocated'>
}

/** The calls that the kubelet should make: part of the registration and of the service. */
export const PLUGIN_OPTIONS: DevicePluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: true,
}

/** Distinguishes the agent's sockets from sockets of other device plugins. */
const PREFIX = 'akri-'

/** The longest wait for the kubelet to read the end of a plugin, in milliseconds. */
const LAST_LIST_MS = 1000

/** A larger list is sent less often than once for each event. */
const SMALL_LIST = 200
/**
 * For each id of a larger list, the time from a change to the list that shows it, in milliseconds:
 * 10,000 Instances that appear one by one must not make 10,000 lists of 10,000 ids.
 */
const LIST_MS_PER_ID = 0.02

type DeviceList = readonly AdvertisedDevice[]

/** The gRPC server of one device plugin (kubelet API v1beta1), on a unix socket. */
export class PluginServer {
  readonly #options: PluginServerOptions
  #serving: Serving | undefined
  /** The streams on which the kubelet reads device lists: usually one. */
  readonly #readers = new Set<Latest<DeviceList>>()
  #change = new AbortController()
  /** The last list. */
  #list: DeviceList = []
  /** Whether a list is sent soon. */
  #isDue = false

  constructor(options: PluginServerOptions) {
    this.#options = options
  }

  /** Whether the kubelet reads the device lists. */
  get isRead(): boolean {
    return this.#readers.size > 0
  }

  /** Aborted by the next {@link wake}, and when a stream is opened or ended. */
  get changed(): AbortSignal {
    return this.#change.signal
  }

  wake(): void {
    this.#change.abort()
    this.#change = new AbortController()
  }

  /** The path of the socket; undefined while the plugin is not served. */
  get socket(): string | undefined {
    return this.#serving?.socket
  }

  /** Serves on a new socket, unless the plugin is served. @throws KubeletUnavailableError */
  async listen(directory: string): Promise<string> {
    if (this.#serving !== undefined) return this.#serving.socket
    const socket = pluginSocket(directory, this.#options.resource.name)
    try {
      this.#serving = await serve(socket, this.#service())
    } catch (error) {
      const message = `cannot listen on ${socket}: ${messageOf(error)}`
      throw new KubeletUnavailableError(message, { cause: error })
    }
    return socket
  }

  /** Sends the device list to the kubelet if it has changed: changes of one event make one list. */
  readvertise(): void {
    if (this.#isDue || !this.isRead) return
    this.#isDue = true
    const send = () => {
      this.#isDue = false
      this.#send()
    }
    const { length } = this.#list
    if (length <= SMALL_LIST) setImmediate(send)
    else void this.#options.clock.sleep(length * LIST_MS_PER_ID, this.changed).then(send, send)
  }

  /**
   * Ends the streams after their last lists. With a device that is gone, a last list says that all
   * ids are unhealthy.
   */
  end({ isGone = false }: WithdrawOptions = {}): void {
    if (isGone) this.#push(this.#list.map(({ id }) => ({ id, healthy: false })))
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
    this.wake()
  }

  /** A kubelet that does not read its list must not delay the other plugins for long. */
  async close(): Promise<void> {
    const { clock, log } = this.#options
    const serving = this.#serving
    this.#serving = undefined
    this.end()
    if (serving === undefined) return
    const limit = new AbortController()
    runAfter(clock, LAST_LIST_MS, limit.signal, () => serving.destroy())
    await serving.close()
    limit.abort()
    await rm(serving.socket, { force: true }).catch((error: unknown) =>
      log.warn({ err: error }, 'socket of the device plugin not removed'),
    )
  }

  /** @param repeat whether to send a list that equals the list before */
  #send({ repeat = false } = {}): void {
    if (this.isRead) this.#push(this.#options.resource.advertise(), repeat)
  }

  #push(list: DeviceList, repeat = false): void {
    if (!repeat && isSame(list, this.#list)) return
    this.#list = list
    for (const reader of this.#readers) reader.push(list)
  }

  /** Sends lists to a kubelet until either side ends the stream. */
  #open(call: ListCall): void {
    if (call.cancelled) return
    const lists = new Latest<DeviceList>()
    this.#readers.add(lists)
    call.once('cancelled', () => {
      if (this.#readers.delete(lists)) this.wake()
    })
    this.wake()
    void writeLists(call, lists)
    this.#send({ repeat: true })
  }

  #service(): DevicePluginServer {
    return {
      getDevicePluginOptions: unary(async () => PLUGIN_OPTIONS),
      listAndWatch: (call) => this.#open(call),
      getPreferredAllocation: unary(async ({ containerRequests }) => ({
        containerResponses: containerRequests.map((request) => ({
          deviceIDs: this.#options.resource.prefer({
            available: request.availableDeviceIDs,
            mustInclude: request.mustIncludeDeviceIDs,
            size: request.allocationSize,
          }),
        })),
      })),
      allocate: unary(({ containerRequests }) =>
        this.#allocate(containerRequests.map(({ devicesIDs }) => devicesIDs)),
      ),
      preStartContainer: unary(async () => ({})),
    }
  }

  async #allocate(ids: readonly (readonly string[])[]): Promise<AllocateResponse> {
    const { resource, claims, log, observer } = this.#options
    let repeat = false
    try {
      const allocations = await claims.allocate(resource, ids)
      observer.allocated(resource.level, 'granted')
      log.info({ ids }, 'allocated')
      return { containerResponses: allocations.map((each) => ({ ...each, cdiDevices: [] })) }
    } catch (error) {
      observer.allocated(resource.level, 'refused')
      log.warn({ ids, err: error }, 'allocation refused')
      // A kubelet whose request was refused needs the list again, changed or not.
      repeat = true
      throw error
    } finally {
      this.#send({ repeat })
      // The list is sent before the answer: the kubelet may admit the next Pod right after the
      // answer.
      await nextIteration()
    }
  }
}

type ListCall = ServerWritableStream<Empty, ListAndWatchResponse>

/** A newer list takes the place of a list that the kubelet has not read. */
async function writeLists(call: ListCall, lists: Latest<DeviceList>): Promise<void> {
  for await (const list of lists) {
    const devices = list.map(({ id: ID, healthy }) => ({
      ID,
      health: healthy ? 'Healthy' : 'Unhealthy',
      topology: undefined,
    }))
    // Until the kernel has the list. After the end of the call there is nothing more to do, and
    // this never resolves.
    await new Promise((onSent) => call.write({ devices }, onSent))
  }
  call.end()
}

function isSame(list: DeviceList, other: DeviceList): boolean {
  return (
    list.length === other.length &&
    list.every(({ id, healthy }, at) => other[at]?.id === id && other[at]?.healthy === healthy)
  )
}

/** A server that listens on a socket. */
interface Serving {
  readonly socket: string
  /** Removes the socket. Resolves when the kubelet has read the streams, and has disconnected. */
  close(): Promise<void>
  /** Ends all connections. `forceShutdown` would wait for a kubelet that does not read. */
  destroy(): void
}

async function serve(socket: string, service: DevicePluginServer): Promise<Serving> {
  const server = new Server({ ...NO_CHANNELZ, ...PLUGIN_CALLS })
  server.addService(DevicePluginService, service)
  const connections = new Set<net.Socket>()
  // `bindAsync` prints a failure to the standard error, and wraps it in a text of its own.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listener = net.createServer((connection) => {
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
    injector.injectConnection(connection)
  })
  listener.listen(socket)
  await once(listener, 'listening')
  return {
    socket,
    async close() {
      const closed = once(listener, 'close')
      listener.close()
      server.tryShutdown(() => undefined)
      await closed
    },
    destroy() {
      for (const connection of connections) connection.destroy()
    },
  }
}

/** @returns a unique path that fits into a socket address: a long name is cut */
export function pluginSocket(directory: string, resourceName: string): string {
  const end = `-${randomBytes(4).toString('hex')}.sock`
  const room = MAX_SOCKET_PATH - Buffer.byteLength(path.join(directory, PREFIX + end))
  const name = path.basename(resourceName).slice(0, Math.max(0, room))
  return path.join(directory, PREFIX + name + end)
}

/**
 * Whether a file in the kubelet's plugin directory is a socket of this agent or of an earlier
 * agent.
 */
export function isPluginSocket(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith('.sock')
}

/** The kubelet stores the text of a failure in the status of the Pod. */
function unary<Request, Response>(
  work: (request: Request) => Promise<Response>,
): handleUnaryCall<Request, Response> {
  return ({ request }, answer) => {
    work(request).then(
      (response) => answer(null, response),
      (error: unknown) => answer({ code: codeOf(error), details: objectMessage(messageOf(error)) }),
    )
  }
}

function codeOf(error: unknown): status {
  if (AllocationRefusedError.is(error)) return status.FAILED_PRECONDITION
  return AkriError.is(error) ? status.UNAVAILABLE : status.INTERNAL
}
