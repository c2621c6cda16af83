import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import {
  DiscoveryHandlerClient,
  type RegisterDiscoveryHandlerRequest,
  RegistrationService,
} from '@akrijs/proto/discovery'
import { defineError, makeRoomForSocket } from '@akrijs/runtime'
import { type Device, DiscoveryProperties } from '@akrijs/runtime/handler'
import { credentials, Server, ServerCredentials, status } from '@grpc/grpc-js'
import { propertiesToWire } from '../wire.js'

export interface SimulatedAgentOptions {
  /**
   * The directory that the agent shares with handlers.
   * @default a new directory, which `close` removes
   */
  readonly directory?: string
}

export interface Registration {
  readonly name: string
  /** The path of a unix socket, or `http://address:port`. */
  readonly endpoint: string
  readonly endpointType: 'UDS' | 'NETWORK'
  readonly shared: boolean
}

export interface DiscoverOptions {
  /** The text of `discoveryDetails`. @default '' */
  readonly details?: string
  /** Texts, or properties with bytes or without a value. @default {} */
  readonly properties?: Readonly<Record<string, string>> | DiscoveryProperties
}

/**
 * The longest wait for a registration, and the default for {@link SimulatedDiscovery.next}, in
 * milliseconds.
 */
const WAIT_MS = 10_000

/**
 * The agent's side of the protocol, over real sockets: takes registrations on
 * `agent-registration.sock` and opens discoveries. It checks no list, so that a test sees what the
 * handler sends.
 *
 * ```ts
 * const agent = await SimulatedAgent.start()
 * const server = await serve(handler, { directory: agent.directory })
 * const session = await agent.discover('http-sensor', { details: 'url: http://localhost:8080' })
 * expect(await session.next()).toEqual([…])
 * ```
 */
export class SimulatedAgent {
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

  static async start({ directory }: SimulatedAgentOptions = {}): Promise<SimulatedAgent> {
    const agent = new SimulatedAgent(
      directory ?? (await mkdtemp(path.join(os.tmpdir(), 'akri-agent-'))),
      directory === undefined,
    )
    await agent.comeBack()
    return agent
  }

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

  /** Opens a discovery. Waits until the handler has registered. */
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
    const stream = client.discover({ discoveryDetails: details, discoveryProperties: wire })
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

  async close(): Promise<void> {
    this.die()
    await rm(this.#ownsDirectory ? this.directory : this.socket, { recursive: true, force: true })
  }

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

/** A registration or a device list did not arrive in time. */
class SimulatedAgentError extends defineError('AKRI_ERR_SIMULATED_AGENT', 'terminal') {}

/** The end of a discovery. `status` is the name of the gRPC status, such as `INVALID_ARGUMENT`. */
export class DiscoveryEndedError extends SimulatedAgentError {
  readonly status: string

  constructor(statusName: string, details: string) {
    super(`${statusName}: ${details}`)
    this.name = 'DiscoveryEndedError'
    this.status = statusName
  }
}

/** The members of a gRPC stream that are used. The types of gRPC are not part of this package. */
interface ListStream {
  on(event: 'data', listener: (response: { readonly devices: Device[] }) => void): unknown
  on(
    event: 'error',
    listener: (error: Error & { code?: number; details?: string }) => void,
  ): unknown
  on(event: 'end', listener: () => void): unknown
  cancel(): void
}

/** An open discovery. Keeps the lists until {@link next} returns them. */
export class SimulatedDiscovery implements AsyncIterable<Device[]> {
  readonly #stream: ListStream
  readonly #lists: Device[][] = []
  readonly #release: () => void
  #ended: DiscoveryEndedError | 'closed' | undefined
  #wake: (() => void) | undefined

  constructor(stream: ListStream, release: () => void) {
    this.#stream = stream
    this.#release = release
    stream.on('data', (response) => {
      this.#lists.push(response.devices)
      this.#wake?.()
    })
    stream.on('error', (error) => {
      this.#end(
        new DiscoveryEndedError(
          status[error.code ?? status.UNKNOWN] ?? 'UNKNOWN',
          error.details ?? error.message,
        ),
      )
    })
    stream.on('end', () => this.#end(new DiscoveryEndedError('OK', 'the handler ended the stream')))
  }

  /** The number of lists that have arrived, and that {@link next} has not returned. */
  get pending(): number {
    return this.#lists.length
  }

  /**
   * Waits for the next list.
   * @param withinMs the longest wait, in milliseconds @default 10000
   * @throws AkriError (`AKRI_ERR_SIMULATED_AGENT`) if no list arrives in time
   * @throws DiscoveryEndedError if the handler ended the stream, with the stream's status
   */
  async next(withinMs = WAIT_MS): Promise<Device[]> {
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      this.#wake?.()
    }, withinMs)
    try {
      for (;;) {
        const list = this.#lists.shift()
        if (list !== undefined) return list
        if (this.#ended !== undefined)
          throw this.#ended === 'closed'
            ? new DiscoveryEndedError('CANCELLED', 'closed by the test')
            : this.#ended
        if (isLate) throw new SimulatedAgentError(`no device list within ${withinMs} ms`)
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    } finally {
      clearTimeout(timer)
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Device[], void, void> {
    while (this.#ended === undefined || this.#lists.length > 0) yield await this.next()
  }

  /** Cancels the discovery, as the agent does when the Configuration is deleted. */
  async close(): Promise<void> {
    this.#end('closed')
    this.#stream.cancel()
  }

  /** Ends the discovery as the end of the agent does. */
  cut(): void {
    this.#stream.cancel()
    this.#end(new DiscoveryEndedError('CANCELLED', 'the agent died'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #end(ended: DiscoveryEndedError | 'closed'): void {
    if (this.#ended === undefined) this.#release()
    this.#ended ??= ended
    this.#wake?.()
  }
}
