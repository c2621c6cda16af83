import { existsSync } from 'node:fs'
import path from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { ObjectKey } from '@akrijs/kube/objects'
import type {
  AllocateResponse,
  DevicePluginServer,
  Empty,
  ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { aborted, Backoff, type Clock, Latest, type Logger, messageOf } from '@akrijs/runtime'
import type { ServerWritableStream } from '@grpc/grpc-js'
import { PluginRefusedError } from '../errors.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { AgentObserver } from '../report/observer.js'
import type { AdvertisedDevice, Resource } from '../slots/resource.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { SlotClaims } from '../slots/slot-claims.js'
import { openPluginServer, PLUGIN_OPTIONS, type PluginServer, unary } from './plugin-server.js'

type DeviceList = readonly AdvertisedDevice[]

/** What a plugin needs of its agent. */
export interface PluginOptions {
  readonly book: Pick<SlotBook, 'advertise' | 'prefer'>
  readonly claims: Pick<SlotClaims, 'allocate'>
  readonly kubelet: Pick<Kubelet, 'pluginDirectory' | 'register' | 'onRestart' | 'onDirectoryRead'>
  readonly clock: Clock
  readonly log: Logger
  readonly observer: AgentObserver
}

interface ResourcePluginOptions extends PluginOptions {
  readonly resource: Resource
  /** The Instance or Configuration of the resource. */
  readonly key: ObjectKey
  readonly configuration: ObjectKey
  /** Called after a change of the problem. */
  onProblem(): void
}

/** Between attempts to serve and to register, in milliseconds. */
const BACKOFF = { initialMs: 500, ceilingMs: 5000 }

/** A kubelet that restarts is away for seconds: that is no problem, in milliseconds. */
const AWAY_MS = 10_000

/**
 * How long the kubelet may take to read the list after it has accepted a plugin, in milliseconds.
 * The kubelet stops after 10 s, and only the log of the kubelet says so.
 */
const FIRST_READ_MS = 15_000

/** A larger list is sent less often than once for each event. */
const SMALL_LIST = 200
/**
 * For each id of a larger list, the time from a change to the list that shows it, in milliseconds:
 * 10,000 Instances that appear one by one must not make 10,000 lists of 10,000 ids.
 */
const LIST_MS_PER_ID = 0.02

/** The device plugin of one resource, of either level: served, and registered with the kubelet. */
export class ResourcePlugin {
  readonly resource: Resource
  readonly key: ObjectKey
  readonly configuration: ObjectKey
  readonly #options: ResourcePluginOptions
  readonly #stop = new AbortController()
  /** Aborted when the plugin needs another socket. */
  #round = new AbortController()
  #server: PluginServer | undefined
  /** The streams on which the kubelet reads device lists: usually one. */
  readonly #readers = new Set<Latest<DeviceList>>()
  /** Aborted when a stream is opened or ended, and when a round ends. */
  #change = new AbortController()
  /** The last list. */
  #list: DeviceList = []
  /** Whether a list is sent soon. */
  #isDue = false
  #running: Promise<void> = Promise.resolve()
  /** Resolves after the first attempt; further attempts follow while the kubelet is away. */
  readonly started: Promise<void>
  /** Time of the first of the failed attempts in a row. */
  #failingSince: number | undefined
  /** Why the kubelet does not have the resource. */
  problem: RegistrationProblem | undefined

  constructor(options: ResourcePluginOptions) {
    const { resource, key, configuration, kubelet, log } = options
    this.#options = options
    this.resource = resource
    this.key = key
    this.configuration = configuration
    // The kubelet removes all sockets when it starts, and grpc-js does not bind again to an address
    // that it holds.
    kubelet.onRestart(() => this.#endRound(), this.#stop.signal)
    kubelet.onDirectoryRead((names) => {
      const { socket } = this
      // The socket may be younger than the listing of the directory.
      if (socket === undefined || names.has(path.basename(socket)) || existsSync(socket)) return
      log.warn({ socket }, 'socket of the device plugin was removed')
      this.#endRound()
    }, this.#stop.signal)
    this.started = new Promise((resolve) => {
      this.#running = this.#keepRegistered(resolve)
    })
  }

  /** The path of the socket; undefined while the plugin is not served. */
  get socket(): string | undefined {
    return this.#server?.socket
  }

  /** Sends the device list to the kubelet if it has changed: changes of one event make one list. */
  readvertise(): void {
    if (this.#isDue || !this.#isRead) return
    this.#isDue = true
    const send = () => {
      this.#isDue = false
      this.#send()
    }
    const { length } = this.#list
    if (length <= SMALL_LIST) setImmediate(send)
    else
      void this.#options.clock.sleep(length * LIST_MS_PER_ID, this.#change.signal).then(send, send)
  }

  /** With a device that is gone, the kubelet has its ids as unhealthy from then on. */
  async stop(isGone = false): Promise<void> {
    if (isGone) this.#send({ list: this.#list.map(({ id }) => ({ id, healthy: false })) })
    this.#follow(undefined)
    this.#stop.abort()
    this.#endStreams()
    this.#round.abort()
    await this.#running
  }

  get #isRead(): boolean {
    return this.#readers.size > 0
  }

  #endRound(): void {
    this.#round.abort()
    this.#wake()
  }

  #wake(): void {
    this.#change.abort()
    this.#change = new AbortController()
  }

  async #keepRegistered(onFirstAttempt: () => void): Promise<void> {
    const { clock, log } = this.#options
    while (!this.#stop.signal.aborted) {
      this.#round = new AbortController()
      const { signal } = this.#round
      await this.#close()
      let backoff = new Backoff(BACKOFF)
      let level: 'warn' | 'debug' = 'warn'
      let isRegistered = await this.#register(level, signal)
      onFirstAttempt()
      while (!signal.aborted) {
        if (isRegistered) {
          if (!this.#isRead)
            await clock.sleep(FIRST_READ_MS, this.#change.signal).catch(() => undefined)
          if (this.#isRead) backoff = new Backoff()
          else if (!signal.aborted)
            log[level](
              {},
              'the kubelet has registered the device plugin, and does not read its list',
            )
          level = 'debug'
          // The kubelet offers nothing of a plugin without a stream, until the plugin registers
          // again.
          while (this.#isRead && !signal.aborted) await aborted(this.#change.signal)
        }
        await clock.sleep(backoff.next(), signal).catch(() => undefined)
        // The kubelet may have taken a registration whose answer came too late.
        if (this.#isRead) this.#follow(undefined)
        isRegistered = this.#isRead || (await this.#register(level, signal))
      }
    }
    await this.#close()
  }

  /** One attempt. @param level the level at which a refusal of the kubelet is logged */
  async #register(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { kubelet, log, observer } = this.#options
    const { name } = this.resource
    if (signal.aborted) return false
    try {
      const { pluginDirectory } = kubelet
      this.#server ??= await openPluginServer(pluginDirectory, name, this.#service(), this.#options)
      await kubelet.register(name, path.basename(this.#server.socket), signal)
      observer.registered('accepted')
      this.#follow(undefined)
      log.debug({}, 'device plugin registered')
      return true
    } catch (error) {
      if (this.#server === undefined) log.warn({ err: error }, 'device plugin not served')
      else {
        // The plugin ends, or needs another socket.
        if (signal.aborted) return false
        observer.registered('failed')
        log[level]({ err: error }, 'registration with the kubelet failed')
      }
      observer.failed('RegistrationFailed', error)
      this.#follow(error)
      return false
    }
  }

  /** @param error the failure of the last attempt; undefined after a success */
  #follow(error: unknown): void {
    const { clock, onProblem } = this.#options
    const resourceName = this.resource.name
    const now = clock.monotonicMs()
    this.#failingSince = error === undefined ? undefined : (this.#failingSince ?? now)
    const isRefused = PluginRefusedError.is(error)
    const isAway = this.#failingSince !== undefined && now - this.#failingSince >= AWAY_MS
    // A failure does not end the problem of another failure.
    if (error !== undefined && !isRefused && !isAway) return
    const message = error === undefined ? undefined : messageOf(error)
    // A plugin that is being stopped may still try.
    if (message === this.problem?.message || this.#stop.signal.aborted) return
    this.problem = message === undefined ? undefined : { resourceName, isRefused, message }
    onProblem()
  }

  async #close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    this.#endStreams()
    await server?.close()
  }

  /** Ends the streams after their last lists. */
  #endStreams(): void {
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
    this.#wake()
  }

  /** Sends lists to a kubelet until either side ends the stream: the newest, if it reads late. */
  async #open(call: ServerWritableStream<Empty, ListAndWatchResponse>): Promise<void> {
    if (call.cancelled) return
    const lists = new Latest<DeviceList>()
    this.#readers.add(lists)
    call.once('cancelled', () => {
      if (this.#readers.delete(lists)) this.#wake()
    })
    this.#wake()
    this.#send({ repeat: true })
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

  /** @param repeat whether to send a list that equals the list before */
  #send({ repeat = false, list = this.#options.book.advertise(this.resource) } = {}): void {
    if (!repeat && isSame(list, this.#list)) return
    this.#list = list
    for (const reader of this.#readers) reader.push(list)
  }

  #service(): DevicePluginServer {
    return {
      getDevicePluginOptions: unary(async () => PLUGIN_OPTIONS),
      listAndWatch: (call) => void this.#open(call),
      getPreferredAllocation: unary(async ({ containerRequests }) => ({
        containerResponses: containerRequests.map((request) => ({
          deviceIDs: this.#options.book.prefer(this.resource, {
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
    const { claims, log, observer } = this.#options
    const { level } = this.resource
    let repeat = false
    try {
      const allocations = await claims.allocate(this.resource, ids)
      observer.allocated(level, 'granted')
      log.info({ ids }, 'allocated')
      return { containerResponses: allocations.map((each) => ({ ...each, cdiDevices: [] })) }
    } catch (error) {
      observer.allocated(level, 'refused')
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

function isSame(list: DeviceList, other: DeviceList): boolean {
  return (
    list.length === other.length &&
    list.every(({ id, healthy }, at) => other[at]?.id === id && other[at]?.healthy === healthy)
  )
}
