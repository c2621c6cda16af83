import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import {
  DiscoveryHandlerClient,
  type RegisterDiscoveryHandlerRequest,
  RegistrationService,
} from '@akrijs/proto/discovery'
import { makeRoomForSocket } from '@akrijs/runtime'
import { credentials, Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js'
import type { Device } from '../handler/device.js'
import type { DeviceReport } from '../handler/handler.js'
import { DiscoveryProperties } from '../handler/properties.js'
import { acceptReportsHeader, propertiesToWire } from '../wire.js'
import { closedByTest, DiscoveryEndedError, SimulatedAgentError } from './errors.js'
import { ListQueue, WAIT_MS } from './list-queue.js'

/** Options of `SimulatedAgent.start`. */
export interface SimulatedAgentOptions {
  /**
   * The directory that the agent shares with handlers.
   * @default a new directory, which `close` removes
   */
  readonly directory?: string
}

/** A registration of a handler. */
export interface Registration {
  /** The name of the handler. */
  readonly name: string
  /** The path of a unix socket, or `http://address:port`. */
  readonly endpoint: string
  /** `UDS` for a unix socket. */
  readonly endpointType: 'UDS' | 'NETWORK'
  /** Whether several nodes can see the same device. */
  readonly shared: boolean
}

/** Options of `SimulatedAgent.discover`. */
export interface DiscoverOptions {
  /** The text of `discoveryDetails`. @default '' */
  readonly details?: string
  /** Texts, or properties with bytes or without a value. @default {} */
  readonly properties?: Readonly<Record<string, string>> | DiscoveryProperties
}

/**
 * The agent's side of the protocol, over real sockets: takes registrations on
 * `agent-registration.sock` and opens discoveries. It checks no list, so that a test sees what the
 * handler sends.
 *
 * @example
 * const agent = await SimulatedAgent.start()
 * const server = await serve(handler, { directory: agent.directory })
 * const session = await agent.discover('http-sensor', { details: 'url: http://localhost:8080' })
 * expect(await session.next()).toMatchObject([{ id: 'hall' }])
 * await server.close()
 */
export class SimulatedAgent {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  /** All registrations in order, with repeated registrations. */
  readonly registrations: Registration[] = []
  readonly #ownsDirectory: boolean
  readonly #sessions = new Set<SimulatedDiscovery>()
  readonly #watchers = new Set<() => void>()
  #server: Server | undefined

  private constructor(directory: string, ownsDirectory: boolean) {
    this.directory = directory
    this.#ownsDirectory = ownsDirectory
  }

  /**
   * Starts to serve registrations.
   * @param options the directory
   */
  static async start({ directory }: SimulatedAgentOptions = {}): Promise<SimulatedAgent> {
    const agent = new SimulatedAgent(
      directory ?? (await mkdtemp(path.join(os.tmpdir(), 'akri-agent-'))),
      directory === undefined,
    )
    await agent.comeBack()
    return agent
  }

  /** The path of the socket for registrations. */
  get socket(): string {
    return path.join(this.directory, 'agent-registration.sock')
  }

  /**
   * Waits for a registration with this name. @returns the latest
   * @param count the number of registrations to wait for
   */
  async registration(name: string, count = 1): Promise<Registration> {
    const found = await this.#until(() => {
      const matching = this.registrations.filter((registration) => registration.name === name)
      return matching.length >= count ? matching.at(-1) : undefined
    })
    if (found !== undefined) return found
    const seen = this.registrations.map((registration) => registration.name).join(', ') || 'none'
    throw new SimulatedAgentError(
      `no handler ${name} registered within ${WAIT_MS} ms; registered: ${seen}`,
    )
  }

  /**
   * Opens a discovery. Waits until the handler has registered.
   * @param name the name of the handler
   * @param options details and properties
   * @throws AkriError (`AKRI_ERR_SIMULATED_AGENT`) if no handler of this name registers in 10 s
   */
  async discover(
    name: string,
    { details = '', properties = {} }: DiscoverOptions = {},
  ): Promise<SimulatedDiscovery> {
    const { endpoint, endpointType } = await this.registration(name)
    const address = endpointType === 'UDS' ? `unix:${endpoint}` : new URL(endpoint).host
    const client = new DiscoveryHandlerClient(address, credentials.createInsecure())
    const wire = propertiesToWire(
      properties instanceof DiscoveryProperties
        ? properties
        : DiscoveryProperties.fromTexts(properties),
    )
    const stream = client.discover(
      { discoveryDetails: details, discoveryProperties: wire },
      Metadata.fromHttp2Headers(acceptReportsHeader()),
    )
    const session = new SimulatedDiscovery(stream, () => {
      this.#sessions.delete(session)
      client.close()
    })
    this.#sessions.add(session)
    return session
  }

  /** Ends as by kill -9: all connections are cut, and the socket's file stays. */
  die(): void {
    this.#server?.forceShutdown()
    this.#server = undefined
    for (const session of this.#sessions) session.cut()
  }

  /** Serves again after {@link die}. The agent knows no handler then. */
  async comeBack(): Promise<void> {
    await makeRoomForSocket(this.socket)
    const server = new Server()
    server.addService(RegistrationService, {
      registerDiscoveryHandler: (
        call: { request: RegisterDiscoveryHandlerRequest },
        answer: (error: null, empty: object) => void,
      ) => {
        const { name, endpoint, endpointType, shared } = call.request
        this.registrations.push({
          name,
          endpoint,
          endpointType: endpointType === 1 ? 'NETWORK' : 'UDS',
          shared,
        })
        answer(null, {})
        for (const watcher of this.#watchers) watcher()
      },
    })
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${this.socket}`, ServerCredentials.createInsecure(), (error) =>
        error ? reject(error) : resolve(),
      )
    })
    this.#server = server
  }

  /** Ends the agent and its discoveries, and removes its files. */
  async close(): Promise<void> {
    this.die()
    await rm(this.#ownsDirectory ? this.directory : this.socket, { recursive: true, force: true })
  }

  /** For `await using`: {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #until<T>(find: () => T | undefined): Promise<T | undefined> {
    return new Promise((resolve) => {
      const watcher = () => {
        const found = find()
        if (found !== undefined) finish(found)
      }
      const finish = (found: T | undefined) => {
        clearTimeout(timer)
        this.#watchers.delete(watcher)
        resolve(found)
      }
      const timer = setTimeout(() => finish(undefined), WAIT_MS)
      this.#watchers.add(watcher)
      watcher()
    })
  }
}

interface Response {
  readonly devices: Device[]
  readonly reports: readonly DeviceReport[]
}

/** The members of a gRPC stream that are used. The types of gRPC are not part of this package. */
interface ListStream {
  on(event: 'data', listener: (response: Response) => void): unknown
  on(
    event: 'error',
    listener: (error: Error & { code?: number; details?: string }) => void,
  ): unknown
  on(event: 'end', listener: () => void): unknown
  cancel(): void
}

/** The ends of a discovery that are no failures. */
const ENDS: readonly string[] = ['OK', 'CANCELLED']

/**
 * An open discovery. Keeps the lists until {@link next} returns them.
 *
 * @example
 * await using agent = await SimulatedAgent.start()
 * await using session = await agent.discover('http-sensor')
 * for await (const devices of session) log.info({ devices: devices.length }, 'a list')
 */
export class SimulatedDiscovery implements AsyncIterable<Device[]> {
  readonly #stream: ListStream
  readonly #lists = new ListQueue<Response>()
  readonly #release: () => void
  #reports: readonly DeviceReport[] = []

  /** @internal */
  constructor(stream: ListStream, release: () => void) {
    this.#stream = stream
    this.#release = release
    stream.on('data', (response) => this.#lists.push(response))
    stream.on('error', (error) => {
      const statusName = status[error.code ?? status.UNKNOWN] ?? 'UNKNOWN'
      const ended = new DiscoveryEndedError(statusName, error.details ?? error.message)
      this.#end(() => ended)
    })
    stream.on('end', () =>
      this.#end(() => new DiscoveryEndedError('OK', 'the handler ended the stream')),
    )
  }

  /** The number of lists that have arrived, and that {@link next} has not returned. */
  get pending(): number {
    return this.#lists.length
  }

  /**
   * What the handler told with the list that {@link next} returned last: by reason, the devices
   * that it left out of the list, and those of the list that have a problem.
   */
  get reports(): readonly DeviceReport[] {
    return this.#reports
  }

  /**
   * Waits for the next list. A handler also sends the same list again, with other reports.
   * @param withinMs the longest wait, in milliseconds, or `Infinity` @default 10000
   * @throws AkriError (`AKRI_ERR_SIMULATED_AGENT`) if no list arrives in time
   * @throws DiscoveryEndedError if the handler ended the stream, with the stream's status
   */
  async next(withinMs = WAIT_MS): Promise<Device[]> {
    const { devices, reports } = await this.#lists.next(withinMs)
    this.#reports = reports
    return devices
  }

  /** All lists until the discovery is closed. Throws if the handler ends it, as `next` does. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Device[], void, void> {
    try {
      for (;;) yield await this.next()
    } catch (error) {
      const isClosed = error instanceof DiscoveryEndedError && ENDS.includes(error.status)
      if (!isClosed) throw error
    }
  }

  /** Cancels the discovery, as the agent does when the Configuration is deleted. */
  async close(): Promise<void> {
    this.#end(closedByTest)
    this.#stream.cancel()
  }

  /** Ends the discovery as the end of the agent does. */
  cut(): void {
    this.#stream.cancel()
    this.#end(() => new DiscoveryEndedError('CANCELLED', 'the agent died'))
  }

  /** For `await using`: {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #end(error: () => Error): void {
    if (!this.#lists.isEnded) this.#release()
    this.#lists.end(error)
  }
}
