import { rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import {
  type AllocateRequest,
  type AllocateResponse,
  type DevicePluginOptions,
  DevicePluginService,
  type Empty,
  type ListAndWatchResponse,
  type PreferredAllocationRequest,
  type PreferredAllocationResponse,
  type PreStartContainerRequest,
  type PreStartContainerResponse,
} from '@akrijs/proto/device-plugin'
import { AkriError, Backoff, type Clock, Latest, type Logger, messageOf } from '@akrijs/runtime'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import type { PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import type { SlotClaims } from '../../core/slots/slot-claims.js'
import { KubeletUnavailableError } from '../../errors.js'
import type { Kubelet } from '../../ports/kubelet.js'
import { type AgentObserver, nobodyObserves } from '../../ports/observer.js'
import { NO_CHANNELZ } from '../channelz.js'
import { pluginSocket } from './plugin-socket.js'

export interface PluginServerOptions {
  readonly behaviour: PluginBehaviour
  readonly kubelet: Kubelet
  readonly claims: SlotClaims
  readonly clock: Clock
  readonly log: Logger
  /** @default nobody */
  readonly observer?: AgentObserver
}

/**
 * One device plugin, whatever its level: serves on a socket of its own, is registered with the kubelet, again after the
 * kubelet's restart, and tells the kubelet the whole list whenever it has changed.
 */
export class DevicePluginServer {
  readonly #options: Required<PluginServerOptions>
  readonly #stop = new AbortController()
  readonly #streams = new Set<ListStream>()
  /** Kubelet restarts and the first registration: one after the other. */
  #work: Promise<void> = Promise.resolve()
  #serving: { readonly server: Server; readonly socket: string } | undefined
  #retrying: Promise<void> = Promise.resolve()
  /** Registering again, since no stream is left. */
  #forgotten: Promise<void> | undefined
  #round = 0
  /** Allocations are given one after the other: one that fails must not take back what another one uses. */
  #allocating: Promise<unknown> = Promise.resolve()

  constructor(options: PluginServerOptions) {
    this.#options = { observer: nobodyObserves, ...options }
  }

  /** Serves and registers. Resolves after the first attempt; a kubelet that is away is tried again and again. */
  async start(): Promise<void> {
    const { kubelet, log } = this.#options
    // The kubelet removes all sockets when it starts, and grpc-js does not bind to an address again that it holds: all anew.
    kubelet.onRestart(() => this.#enqueue(() => this.#serveAndRegister()), this.#stop.signal)
    kubelet.onLook((names) => {
      if (this.#serving !== undefined && !names.has(path.basename(this.#serving.socket)))
        this.#enqueue(() => this.#serveIfGone())
    }, this.#stop.signal)
    await this.#enqueue(() => this.#serveAndRegister())
    log.debug({}, 'device plugin started')
  }

  /** Where it is served; undefined while it is not. */
  get socket(): string | undefined {
    return this.#serving?.socket
  }

  /** Tells the kubelet what is advertised now, if it is something else than before. */
  readvertise(): void {
    const response = this.#list()
    for (const stream of this.#streams) stream.offer(response)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#work
    await this.#retrying
    await this.#forgotten
    await this.#stopServing()
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      if (!this.#stop.signal.aborted)
        this.#options.log.error({ err: error }, 'device plugin failed')
    })
    return this.#work
  }

  async #serveAndRegister(): Promise<void> {
    if (this.#stop.signal.aborted) return
    this.#round++
    await this.#stopServing()
    if (await this.#attempt()) return
    // Not awaited here: a kubelet that is away must not hold up what comes after.
    this.#retrying = this.#retry()
  }

  /** Somebody has removed our socket: who listens on it is not found any more. */
  async #serveIfGone(): Promise<void> {
    const socket = this.#serving?.socket
    // It may have been made after the directory was read.
    if (socket === undefined || (await stat(socket).catch(() => undefined)) !== undefined) return
    this.#options.log.warn(
      { socket },
      'the socket of the device plugin is gone, serving on another one',
    )
    await this.#serveAndRegister()
  }

  /** One attempt at what is still to be done of serving and registering. */
  async #attempt(): Promise<boolean> {
    try {
      if (this.#serving === undefined) await this.#serve()
    } catch (error) {
      this.#options.log.warn({ err: error }, 'cannot serve the device plugin')
      await this.#stopServing()
      return false
    }
    return this.#register()
  }

  async #retry(): Promise<void> {
    const { clock } = this.#options
    const waits = new Backoff({ initialMs: 500, ceilingMs: 5000 })
    const round = ++this.#round
    for (let done = false; !done; ) {
      await clock.sleep(waits.next(), this.#stop.signal).catch(() => undefined)
      // Overtaken by a restart of the kubelet, or stopped.
      if (this.#stop.signal.aborted || this.#round !== round) return
      done = await this.#attempt()
    }
  }

  /** @param level of what is said where it fails */
  async #register(level: 'warn' | 'debug' = 'warn'): Promise<boolean> {
    const { behaviour, kubelet, log, observer } = this.#options
    if (this.#serving === undefined) return false
    try {
      await kubelet.register(
        {
          resourceName: behaviour.resourceName,
          socketName: path.basename(this.#serving.socket),
          preferredAllocation: behaviour.prefer !== undefined,
        },
        this.#stop.signal,
      )
      observer.registered('accepted')
      return true
    } catch (error) {
      observer.registered('failed')
      if (!this.#stop.signal.aborted) log[level]({ err: error }, 'cannot register with the kubelet')
      return false
    }
  }

  async #serve(): Promise<void> {
    const { behaviour, kubelet } = this.#options
    const socket = pluginSocket(kubelet.pluginDirectory, behaviour.resourceName)
    const server = new Server(NO_CHANNELZ)
    server.addService(DevicePluginService, {
      getDevicePluginOptions: (
        _call: ServerUnaryCall<Empty, DevicePluginOptions>,
        answer: sendUnaryData<DevicePluginOptions>,
      ) =>
        answer(null, {
          preStartRequired: false,
          getPreferredAllocationAvailable: behaviour.prefer !== undefined,
        }),
      listAndWatch: (call: ServerWritableStream<Empty, ListAndWatchResponse>) => {
        void this.#watch(call)
      },
      getPreferredAllocation: unary<PreferredAllocationRequest, PreferredAllocationResponse>(
        async (request) => this.#prefer(request),
      ),
      allocate: unary<AllocateRequest, AllocateResponse>((request) => this.#allocate(request)),
      preStartContainer: unary<PreStartContainerRequest, PreStartContainerResponse>(
        async () => ({}),
      ),
    })
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
        if (error)
          reject(
            new KubeletUnavailableError(`cannot listen on ${socket}: ${error.message}`, {
              cause: error,
            }),
          )
        else resolve()
      })
    })
    this.#serving = { server, socket }
  }

  async #stopServing(): Promise<void> {
    const serving = this.#serving
    this.#serving = undefined
    for (const stream of this.#streams) stream.end()
    if (serving === undefined) return
    await new Promise<void>((resolve) => {
      serving.server.tryShutdown(() => resolve())
      // Streams have ended; what is left are connections that the kubelet keeps.
      void setImmediate().then(() => {
        serving.server.forceShutdown()
        resolve()
      })
    })
    await rm(serving.socket, { force: true })
  }

  #list(): ListAndWatchResponse {
    const devices = this.#options.behaviour.advertise()
    return {
      devices: devices.map(({ id, healthy }) => ({
        ID: id,
        health: healthy ? 'Healthy' : 'Unhealthy',
        topology: undefined,
      })),
    }
  }

  async #watch(call: ServerWritableStream<Empty, ListAndWatchResponse>): Promise<void> {
    const lists = new ListStream()
    let left = false
    const gone = () => {
      left = true
      lists.end()
    }
    call.on('cancelled', gone)
    call.on('error', gone)
    if (call.cancelled) return
    this.#streams.add(lists)
    lists.offer(this.#list())
    for await (const list of lists) {
      if (!call.write(list)) await drained(call)
    }
    this.#streams.delete(lists)
    call.end()
    if (left)
      this.#forgotten ??= this.#registerAgain().finally(() => {
        this.#forgotten = undefined
      })
  }

  /**
   * The kubelet has ended its stream, and offers nothing of a plugin that it does not watch. It may have restarted, which is seen
   * by its socket; if it has not, it has given up on the plugin until that registers again.
   */
  async #registerAgain(): Promise<void> {
    const { clock, log } = this.#options
    const waits = new Backoff()
    const round = this.#round
    do {
      await clock.sleep(waits.next(), this.#stop.signal).catch(() => undefined)
      if (this.#stop.signal.aborted || this.#round !== round || this.#streams.size > 0) return
      log.debug({}, 'the kubelet does not watch the device plugin any more, registering again')
    } while (!(await this.#register('debug')))
  }

  #allocate(request: AllocateRequest): Promise<AllocateResponse> {
    const allocation = this.#allocating.then(() => this.#allocateNow(request))
    this.#allocating = allocation.catch(() => undefined)
    return allocation
  }

  async #allocateNow({ containerRequests }: AllocateRequest): Promise<AllocateResponse> {
    const { behaviour, claims, log, observer } = this.#options
    const ids = containerRequests.map(({ devicesIDs }) => devicesIDs)
    try {
      const allocations = await claims.during((ofRequest) => behaviour.allocate(ids, ofRequest))
      observer.allocated(behaviour.level, 'granted')
      log.info({ ids }, 'allocated')
      return {
        containerResponses: allocations.map(({ mounts, devices, ...allocation }) => ({
          ...allocation,
          mounts: [...mounts],
          devices: [...devices],
          cdiDevices: [],
        })),
      }
    } catch (error) {
      observer.allocated(behaviour.level, 'refused')
      log.warn({ ids, err: error }, 'allocation refused')
      // The kubelet asked for what it should not have: tell it anew what there is, even if that is what it was told.
      for (const stream of this.#streams) stream.repeat(this.#list())
      throw error
    } finally {
      this.readvertise()
      // Written before the answer is: right after it the kubelet may admit the next Pod, by the ids that it knows.
      await setImmediate()
    }
  }

  #prefer({ containerRequests }: PreferredAllocationRequest): PreferredAllocationResponse {
    const { behaviour } = this.#options
    if (behaviour.prefer === undefined)
      throw new AkriError('AKRI_ERR_UNIMPLEMENTED', 'terminal', 'there is no preference')
    const requests = containerRequests.map((request) => ({
      available: request.availableDeviceIDs,
      mustInclude: request.mustIncludeDeviceIDs,
      size: request.allocationSize,
    }))
    return {
      containerResponses: behaviour.prefer(requests).map((ids) => ({ deviceIDs: [...ids] })),
    }
  }
}

function unary<Request, Response>(work: (request: Request) => Promise<Response>) {
  return (call: ServerUnaryCall<Request, Response>, answer: sendUnaryData<Response>): void => {
    work(call.request).then(
      (response) => answer(null, response),
      (error: unknown) => answer({ code: statusOf(error), details: messageOf(error) }),
    )
  }
}

function statusOf(error: unknown): status {
  if (!AkriError.is(error)) return status.INTERNAL
  if (error.code === 'AKRI_ERR_UNIMPLEMENTED') return status.UNIMPLEMENTED
  return error.code === 'AKRI_ERR_ALLOCATION_REFUSED'
    ? status.FAILED_PRECONDITION
    : status.UNAVAILABLE
}

/** The lists for one kubelet's stream. One that says what the one before said is left out. */
class ListStream extends Latest<ListAndWatchResponse> {
  #last: string | undefined

  offer(list: ListAndWatchResponse): void {
    const text = JSON.stringify(list)
    if (text !== this.#last) this.push(list)
    this.#last = text
  }

  repeat(list: ListAndWatchResponse): void {
    this.#last = undefined
    this.offer(list)
  }
}

/** Resolves when the kubelet has read what was written, or is gone. */
function drained(call: ServerWritableStream<Empty, ListAndWatchResponse>): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const event of ['drain', 'cancelled', 'error']) call.off(event, done)
      resolve()
    }
    if (call.cancelled) return resolve()
    for (const event of ['drain', 'cancelled', 'error']) call.on(event, done)
  })
}
