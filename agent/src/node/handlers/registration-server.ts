import { chmod, lstat, realpath, rm } from 'node:fs/promises'
import net, { isIPv6, type Socket } from 'node:net'
import path from 'node:path'
import {
  type Empty,
  type RegisterDiscoveryHandlerRequest,
  RegistrationService,
} from '@akrijs/proto/discovery'
import {
  AkriError,
  type Clock,
  type Logger,
  makeRoomForSocket,
  messageOf,
  SocketUnusableError,
  systemClock,
} from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import type { HandlerRegistry } from '../../core/discovery/handler-registry.js'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'
import { type EndpointAddress, RemoteEndpoint } from './remote-endpoint.js'

export interface RegistrationServerOptions {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  readonly registry: HandlerRegistry
  readonly log: Logger
  /** @default systemClock */
  readonly clock?: Clock
}

/**
 * The most endpoints that are known at once, and of one name: a flood must not take the memory of the agent. Beyond, the
 * one that registered longest ago and is not in use gives way to the new one.
 */
const MAX_ENDPOINTS = 256
const MAX_ENDPOINTS_PER_NAME = 32

/**
 * When the connection of a handler that gave way is ended, in milliseconds: a handler that lives registers again then.
 * Not at once, since handlers of which there are too many would take turns without a rest.
 */
const RETURN_MS = 10_000

export interface RegistrationServer {
  readonly socket: string
  close(): Promise<void>
}

/** Takes the registrations of handlers. Whatever comes in is checked: anything on the node may write to the socket. */
export async function serveRegistration(
  options: RegistrationServerOptions,
): Promise<RegistrationServer> {
  const { directory, registry, log, clock = systemClock } = options
  const socket = path.join(directory, AGENT_SOCKET)
  await makeRoomForSocket(socket)
  const server = new Server({ 'grpc.max_receive_message_length': 64 * 1024 })
  const connections = new HandlerConnections(clock)
  const take = async (request: RegisterDiscoveryHandlerRequest, peer: string) => {
    const endpoint = await endpointOf(request, directory)
    const gaveWay = makeRoom(endpoint, registry)
    registry.register(endpoint)
    connections.registered(endpoint, peer)
    log.info(
      { handler: endpoint.name, endpoint: endpoint.uid, shared: endpoint.shared },
      'handler registered',
    )
    if (gaveWay === undefined) return
    connections.endSoon(gaveWay)
    log.info(
      { handler: gaveWay.name, endpoint: gaveWay.uid },
      'unused handler gave way to another one',
    )
  }
  server.addService(RegistrationService, {
    registerDiscoveryHandler: (
      call: ServerUnaryCall<RegisterDiscoveryHandlerRequest, Empty>,
      answer: sendUnaryData<Empty>,
    ) => {
      take(call.request, call.getPeer()).then(
        () => answer(null, {}),
        (error: unknown) => {
          log.warn({ err: error }, 'registration refused')
          answer({
            code: error instanceof RegistrationRefusedError ? error.status : status.INTERNAL,
            details: messageOf(error),
          })
        },
      )
    },
  })
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listener = net.createServer((connection) => {
    connections.add(connection)
    injector.injectConnection(connection)
  })
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: Error) =>
      reject(
        new SocketUnusableError(`cannot listen on ${socket}: ${error.message}`, { cause: error }),
      )
    listener.once('error', refuse)
    listener.listen(socket, () => {
      listener.off('error', refuse)
      listener.on('error', (error) =>
        log.error({ err: error }, 'a connection of a handler was not accepted'),
      )
      resolve()
    })
  })
  await chmod(socket, 0o660)
  const { ino } = await lstat(socket)
  return {
    socket,
    async close() {
      listener.close()
      server.forceShutdown()
      connections.close()
      // An agent that took our place during an upgrade has a socket of its own there.
      const now = await lstat(socket).catch(() => undefined)
      if (now?.ino === ino) await rm(socket, { force: true })
    },
  }
}

/** The connections over which handlers have registered. Those of the SDK hold theirs, and register again when it ends. */
class HandlerConnections {
  readonly #clock: Clock
  readonly #stop = new AbortController()
  readonly #open = new Map<string, Socket>()
  readonly #peers = new WeakMap<HandlerEndpoint, string>()
  /** Those that are about to be ended. */
  readonly #ending = new Set<string>()
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(connection: Socket): void {
    const peer = `handler ${++this.#count}`
    // Connections of a unix socket have no address: with one, gRPC tells which of them a call came over.
    Object.defineProperty(connection, 'remoteAddress', { value: peer })
    this.#open.set(peer, connection)
    connection.once('close', () => this.#open.delete(peer))
  }

  registered(endpoint: HandlerEndpoint, peer: string): void {
    this.#peers.set(endpoint, peer)
  }

  /** Ends the connection of an endpoint in {@link RETURN_MS}. */
  endSoon(endpoint: HandlerEndpoint): void {
    const peer = this.#peers.get(endpoint)
    if (peer === undefined || !this.#open.has(peer) || this.#ending.has(peer)) return
    this.#ending.add(peer)
    this.#clock.sleep(RETURN_MS, this.#stop.signal).then(
      () => {
        this.#ending.delete(peer)
        this.#open.get(peer)?.destroy()
      },
      () => {
        // The server was closed, and with it all of them.
      },
    )
  }

  close(): void {
    this.#stop.abort()
    for (const connection of this.#open.values()) connection.destroy()
  }
}

/** A handler's registration is refused; the handler is told why. */
class RegistrationRefusedError extends AkriError {
  readonly status: status

  constructor(code: status, message: string) {
    super('AKRI_ERR_REGISTRATION_REFUSED', 'terminal', message)
    this.name = 'RegistrationRefusedError'
    this.status = code
  }
}

async function endpointOf(
  { name, endpoint, endpointType, shared }: RegisterDiscoveryHandlerRequest,
  directory: string,
): Promise<RemoteEndpoint> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw invalid(
      `name ${shown(name)} is not a handler name; it has letters, digits, '-', '_' and '.', 63 characters at most`,
    )
  }
  return new RemoteEndpoint(name, shared, await addressOf(endpoint, endpointType, directory))
}

/**
 * Makes room for an endpoint where there are as many as may be.
 * @returns the endpoint that gave way
 * @throws RegistrationRefusedError where all are in use
 */
function makeRoom(
  { name, uid }: RemoteEndpoint,
  registry: HandlerRegistry,
): HandlerEndpoint | undefined {
  const known = registry.endpoints(name)
  if (known.some((one) => one.uid === uid)) return undefined
  const nameIsFull = known.length >= MAX_ENDPOINTS_PER_NAME
  if (!nameIsFull && registry.size < MAX_ENDPOINTS) return undefined
  // Handlers in this process do not register again.
  const unused = registry.longestUnused(
    (one) => one instanceof RemoteEndpoint && (!nameIsFull || one.name === name),
  )
  if (unused === undefined) {
    throw new RegistrationRefusedError(
      status.RESOURCE_EXHAUSTED,
      `there are ${known.length} endpoints of ${name} and ${registry.size} in all, and those that could give way are in use; no more are taken`,
    )
  }
  registry.drop(unused)
  return unused
}

async function addressOf(
  endpoint: string,
  type: number,
  directory: string,
): Promise<EndpointAddress> {
  if (type === 0) return { type: 'unix', path: await checkedSocket(endpoint, directory) }
  if (type === 1) return { type: 'network', host: checkedHost(endpoint) }
  throw invalid(`endpoint_type ${type} is not known; it is UDS (0) or NETWORK (1)`)
}

/** A handler's socket must be in the directory that it shares with the agent: nothing else is to be dialled in its name. */
async function checkedSocket(endpoint: string, directory: string): Promise<string> {
  if (!path.isAbsolute(endpoint) || endpoint.includes('\0'))
    throw invalid(`endpoint ${shown(endpoint)} is not an absolute path`)
  const home = await realpath(directory)
  let real: string
  try {
    real = await realpath(endpoint)
  } catch {
    throw invalid(`endpoint ${shown(endpoint)} is not there`)
  }
  if (path.dirname(real) !== home)
    throw invalid(`endpoint ${shown(endpoint)} is not in ${directory}`)
  if (!(await lstat(real)).isSocket()) throw invalid(`endpoint ${shown(endpoint)} is not a socket`)
  if (path.basename(real) === AGENT_SOCKET)
    throw invalid(`endpoint ${shown(endpoint)} is the agent's own`)
  return real
}

function checkedHost(endpoint: string): string {
  const refuse = () => invalid(`endpoint ${shown(endpoint)} is not http://address:port`)
  if (endpoint.length > 512 || !URL.canParse(endpoint)) throw refuse()
  const { protocol, hostname, port, pathname, search, username } = new URL(endpoint)
  const plain =
    protocol === 'http:' &&
    (pathname === '/' || pathname === '') &&
    search === '' &&
    username === ''
  if (!plain || hostname === '') throw refuse()
  const bare = hostname.replace(/^\[|\]$/g, '')
  // URL drops the port that is http's own.
  return `${isIPv6(bare) ? `[${bare}]` : bare}:${port === '' ? '80' : port}`
}

function invalid(message: string): RegistrationRefusedError {
  return new RegistrationRefusedError(status.INVALID_ARGUMENT, message)
}

function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}
