import { setMaxListeners } from 'node:events'
import path from 'node:path'
import {
  type Empty,
  type RegisterDiscoveryHandlerRequest,
  RegisterDiscoveryHandlerRequest_EndpointType,
  RegistrationService,
} from '@akrijs/proto/discovery'
import { type Clock, isServed, messageOf } from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { MAX_ENDPOINTS, MAX_WAITING_REGISTRATIONS, REGISTRATION_CALLS } from '../limits.js'
import type { HandlerRegistry } from './handler-registry.js'
import {
  endpointOf,
  type HandlerAddresses,
  RegistrationRefusedError,
} from './registration-request.js'
import { openRegistrationSocket, type RegistrationSocketOptions } from './registration-socket.js'
import { RemoteEndpoint } from './remote-endpoint.js'

export interface RegistrationServerOptions extends RegistrationSocketOptions {
  readonly registry: HandlerRegistry
  readonly names: RegistrationNames
  /** Where handlers may serve, besides sockets in the directory. @default no address */
  readonly addresses?: HandlerAddresses | undefined
  readonly clock: Clock
}

/**
 * The names that may register on a socket: all but those of handlers that the agent loads, or only
 * these, in processes of their own. The credentials of Configurations go to a handler by its name.
 */
export type RegistrationNames =
  | { readonly allBut: ReadonlySet<string> }
  | { readonly only: ReadonlySet<string> }

/**
 * The registration of a handler at a socket of this node. A handler of the existing system does not
 * register again after a restart of the agent if no Configuration uses it.
 */
export interface RememberedHandler {
  readonly name: string
  /** The path of the handler's socket. */
  readonly socket: string
  readonly shared: boolean
  /** The user of the socket. Another user has to register. */
  readonly owner: string
}

/**
 * The registrations to remember. The next process at a network address could be any.
 * @param isolated the handlers that the agent starts itself
 */
export function rememberedHandlers(
  registry: HandlerRegistry,
  isolated: readonly string[] = [],
): RememberedHandler[] {
  return registry.all.flatMap((endpoint) => {
    if (!(endpoint instanceof RemoteEndpoint) || endpoint.socket === undefined) return []
    const { name, socket, shared, owner } = endpoint
    return isolated.includes(name) ? [] : { name, socket, shared, owner }
  })
}

/**
 * A registration waits for the Pod with its address, for 5 s in all: a container knows its address
 * before the API server does.
 */
const POLLS = 20
const POLL_MS = 250

/** Serves the socket on which handlers register. */
export class RegistrationServer {
  readonly #options: RegistrationServerOptions
  readonly #server = new Server(REGISTRATION_CALLS)
  readonly #stop = new AbortController()
  #socket: { close(): Promise<void> } | undefined
  /** How many registrations wait for the Pod with their address. */
  #waiting = 0

  private constructor(options: RegistrationServerOptions) {
    this.#options = options
    // A listener for each registration that waits.
    setMaxListeners(0, this.#stop.signal)
    this.#server.addService(RegistrationService, {
      registerDiscoveryHandler: (
        { request }: ServerUnaryCall<RegisterDiscoveryHandlerRequest, Empty>,
        answer: sendUnaryData<Empty>,
      ) =>
        void this.#register(request).then(
          () => answer(null, {}),
          (error: unknown) => {
            // At the end of the agent its handlers may just be starting.
            const level = this.#stop.signal.aborted ? 'info' : 'warn'
            options.log[level]({ err: error }, 'registration refused')
            const code = error instanceof RegistrationRefusedError ? error.status : status.INTERNAL
            answer({ code, details: messageOf(error) })
          },
        ),
    })
  }

  /** @throws SocketUnusableError */
  static async open(options: RegistrationServerOptions): Promise<RegistrationServer> {
    const server = new RegistrationServer(options)
    // `bindAsync` knows no limit of connections.
    const injector = server.#server.createConnectionInjector(ServerCredentials.createInsecure())
    server.#socket = await openRegistrationSocket(options, (connection) =>
      injector.injectConnection(connection),
    )
    return server
  }

  get socket(): string {
    return path.join(this.#options.directory, AGENT_SOCKET)
  }

  /**
   * Registers handlers of the agent before, unless their sockets are of another user now, or are
   * not served. Never rejects.
   */
  async restore(handlers: readonly RememberedHandler[]): Promise<void> {
    await Promise.all(handlers.map((handler) => this.#restore(handler)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#server.forceShutdown()
    await this.#socket?.close()
    this.#socket = undefined
  }

  async #register(request: RegisterDiscoveryHandlerRequest): Promise<void> {
    const { registry, log } = this.#options
    const endpoint = await this.#endpointOf(request)
    const { uid } = endpoint
    const isFull = registry.size >= MAX_ENDPOINTS && registry.get(uid) === undefined
    // Places of handlers that have left.
    if (isFull) await registry.dropAbsent()
    if (this.#stop.signal.aborted)
      throw new RegistrationRefusedError(status.UNAVAILABLE, 'the agent ends')
    const registered = registry.get(uid)
    if (!(registered instanceof RemoteEndpoint)) return this.#add(endpoint, 'handler registered')
    if (registered.registerAgain(endpoint))
      log.info({ handler: request.name, endpoint: uid }, 'handler registered again')
    registry.register(registered)
  }

  async #restore({ socket, owner, ...handler }: RememberedHandler): Promise<void> {
    const { registry, log } = this.#options
    const endpointType = RegisterDiscoveryHandlerRequest_EndpointType.UDS
    try {
      const endpoint = await this.#endpointOf({ ...handler, endpoint: socket, endpointType })
      const isThere = endpoint.owner === owner && (await isServed(socket))
      // It may have registered meanwhile.
      if (!isThere || this.#stop.signal.aborted || registry.get(endpoint.uid) !== undefined) return
      this.#add(endpoint, 'handler remembered')
    } catch (error) {
      log.info({ handler: handler.name, endpoint: socket, err: error }, 'handler not remembered')
    }
  }

  /** @throws RegistrationRefusedError */
  #endpointOf(request: RegisterDiscoveryHandlerRequest): Promise<RemoteEndpoint> {
    const { addresses, clock, directory, names } = this.#options
    const { signal } = this.#stop
    checkName(request.name, names)
    const holderOf = (address: string) => addresses?.holderOf(address)
    return endpointOf(request, directory, holderOf, async (address) => {
      // Beyond the bound, a registration is answered at once: its handler comes again.
      if (this.#waiting >= MAX_WAITING_REGISTRATIONS) return holderOf(address)
      this.#waiting++
      for (let polls = 0; polls < POLLS && !signal.aborted && !holderOf(address); polls++)
        await clock.sleep(POLL_MS, signal).catch(() => undefined)
      this.#waiting--
      return holderOf(address)
    })
  }

  #add(endpoint: RemoteEndpoint, message: string): void {
    const { registry, log } = this.#options
    const { name, uid, owner, shared } = endpoint
    if (registry.size >= MAX_ENDPOINTS)
      throw new RegistrationRefusedError(
        status.RESOURCE_EXHAUSTED,
        `the agent has ${MAX_ENDPOINTS} endpoints of handlers, the most that it accepts, and ` +
          'each is still served; end a handler that is not needed, and this one can register',
      )
    registry.register(endpoint)
    log.info({ handler: name, endpoint: uid, owner, shared }, message)
  }
}

/** @throws RegistrationRefusedError */
function checkName(name: string, names: RegistrationNames): void {
  if ('allBut' in names ? !names.allBut.has(name) : names.only.has(name)) return
  throw new RegistrationRefusedError(
    status.PERMISSION_DENIED,
    'allBut' in names
      ? `the agent loads a handler ${name} itself; end this handler, or do not name it in ` +
          'AKRI_HANDLERS of the agent'
      : `only ${[...names.only].join(', ')} register here`,
  )
}
