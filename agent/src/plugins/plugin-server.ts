import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import {
  type DevicePluginOptions,
  type DevicePluginServer,
  DevicePluginService,
} from '@akrijs/proto/device-plugin'
import {
  AkriError,
  type Clock,
  type Logger,
  MAX_SOCKET_PATH,
  messageOf,
  NO_CHANNELZ,
  objectMessage,
  runAfter,
} from '@akrijs/runtime'
import { type handleUnaryCall, Server, ServerCredentials, status } from '@grpc/grpc-js'
import { AllocationRefusedError, KubeletUnavailableError } from '../errors.js'
import { PLUGIN_CALLS } from '../limits.js'
import type { AgentObserver } from '../report/observer.js'
import type { Resource } from '../slots/resource.js'
import type { SlotClaims } from '../slots/slot-claims.js'
import type { ContainerAllocation } from './allocation.js'
import { ListStreams } from './list-streams.js'

interface PluginServerOptions {
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

/** The gRPC server of one device plugin (kubelet API v1beta1), on a unix socket. */
export class PluginServer {
  readonly streams = new ListStreams()
  readonly #options: PluginServerOptions
  #serving: Serving | undefined
  /** Whether a list is sent soon. */
  #isDue = false

  constructor(options: PluginServerOptions) {
    this.#options = options
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
    if (this.#isDue || this.streams.size === 0) return
    this.#isDue = true
    const send = () => {
      this.#isDue = false
      this.#send()
    }
    const { ids, changed } = this.streams
    if (ids <= SMALL_LIST) setImmediate(send)
    else
      void this.#options.clock
        .sleep(ids * LIST_MS_PER_ID, changed)
        .catch(() => undefined)
        .then(send)
  }

  /** A kubelet that does not read its list must not delay the other plugins for long. */
  async close(): Promise<void> {
    const { clock, log } = this.#options
    const serving = this.#serving
    this.#serving = undefined
    this.streams.end()
    if (serving === undefined) return
    const limit = new AbortController()
    runAfter(clock, LAST_LIST_MS, limit.signal, () => serving.destroy())
    await serving.close()
    limit.abort()
    await rm(serving.socket, { force: true }).catch((error: unknown) =>
      log.warn({ err: error }, 'socket of the device plugin not removed'),
    )
  }

  #send(options: { readonly repeat?: boolean } = {}): void {
    if (this.streams.size > 0) this.streams.send(this.#options.resource.advertise(), options)
  }

  #service(): DevicePluginServer {
    return {
      getDevicePluginOptions: unary(async () => PLUGIN_OPTIONS),
      listAndWatch: (call) => {
        this.streams.open(call)
        this.#send({ repeat: true })
      },
      getPreferredAllocation: unary(async ({ containerRequests }) => {
        const requests = containerRequests.map((request) => ({
          available: request.availableDeviceIDs,
          mustInclude: request.mustIncludeDeviceIDs,
          size: request.allocationSize,
        }))
        const preferred = this.#options.resource.prefer(requests)
        return { containerResponses: preferred.map((ids) => ({ deviceIDs: [...ids] })) }
      }),
      allocate: unary(async ({ containerRequests }) => {
        const allocations = await this.#allocate(containerRequests.map((each) => each.devicesIDs))
        return {
          containerResponses: allocations.map(({ mounts, devices, ...allocation }) => ({
            ...allocation,
            mounts: [...mounts],
            devices: [...devices],
            cdiDevices: [],
          })),
        }
      }),
      preStartContainer: unary(async () => ({})),
    }
  }

  async #allocate(ids: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const { resource, claims, log, observer } = this.#options
    let repeat = false
    try {
      const allocations = await claims.allocate(resource, ids)
      observer.allocated(resource.level, 'granted')
      log.info({ ids }, 'allocated')
      return allocations
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
