import { once, setMaxListeners } from 'node:events'
import { chmod, lstat, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import {
  type Empty,
  type RegisterDiscoveryHandlerRequest,
  RegisterDiscoveryHandlerRequest_EndpointType,
  RegistrationService,
} from '@akrijs/proto/discovery'
import {
  type Clock,
  isServed,
  type Logger,
  makeRoomForSocket,
  messageOf,
  SocketUnusableError,
} from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { MAX_ENDPOINTS, MAX_REGISTRATION_CONNECTIONS } from '../limits.js'
import { AddressHolders } from './address-holders.js'
import type { HandlerAddresses } from './handler-addresses.js'
import type { HandlerRegistry } from './handler-registry.js'
import { giveToGroup, openDirectoryToGroup } from './handlers-directory.js'
import { endpointOf, RegistrationRefusedError } from './registration-request.js'
import type { RememberedHandler } from './remembered-handlers.js'
import { RemoteEndpoint } from './remote-endpoint.js'

export interface RegistrationServerOptions {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  /** The group of handlers that are not root. @default handlers have the user of the agent */
  readonly group?: number | undefined
  readonly registry: HandlerRegistry
  /** Decides by its name whether a handler may register. */
  readonly names: RegistrationNames
  /** The network addresses at which handlers may serve. */
  readonly addresses: HandlerAddresses
  readonly clock: Clock
  readonly log: Logger
}

/** The bounds of one connection: a registration is one small call. */
const CALL_LIMITS = {
  'grpc.max_receive_message_length': 64 * 1024,
  'grpc.max_concurrent_streams': 100,
  // In megabytes.
  'grpc-node.max_session_memory': 1,
}

/** The pause between two checks of all endpoints, in milliseconds: each makes 256 connections. */
const CHECK_MS = 1000

export interface RegistrationServer {
  readonly socket: string
  /**
   * Registers handlers of the agent before, unless their sockets are of another user now, or are
   * not served. Resolves when all are looked at; never rejects.
   */
  restore(handlers: readonly RememberedHandler[]): Promise<void>
  close(): Promise<void>
}

/**
 * The names that may register on a socket. The agent loads some handlers itself. No other program
 * can register under their names: it would get the credentials of their Configurations.
 */
export type RegistrationNames =
  /** Any name but those of handlers that the agent loads. */
  | { readonly allBut: ReadonlySet<string> }
  /** Those of handlers that the agent loads, in processes of their own. */
  | { readonly only: ReadonlySet<string> }

/** Serves the socket on which handlers register. */
export async function serveRegistration(
  options: RegistrationServerOptions,
): Promise<RegistrationServer> {
  const { directory, group, registry, names, addresses, log, clock } = options
  const socket = path.join(directory, AGENT_SOCKET)
  // Devices are more important: handlers of the agent's user go on.
  const opened =
    group !== undefined &&
    (await openDirectoryToGroup(directory, group).then(
      () => true,
      (error: unknown) => {
        log.error({ err: error }, 'directory of handlers not opened to their group')
        return false
      },
    ))
  await makeRoomForSocket(socket)
  const server = new Server(CALL_LIMITS)
  const stop = new AbortController()
  // A listener for each registration that waits.
  setMaxListeners(0, stop.signal)
  const places = { directory, holders: new AddressHolders(addresses, clock, stop.signal) }
  let check = Promise.resolve()
  let checkedAt = -Infinity
  /** Gives the places of handlers that have left to others. */
  const makeRoom = () => {
    if (clock.monotonicMs() - checkedAt >= CHECK_MS) {
      checkedAt = clock.monotonicMs()
      check = registry.dropAbsent()
    }
    return check
  }
  const register = async (request: RegisterDiscoveryHandlerRequest) => {
    checkName(request.name, names)
    const endpoint = await endpointOf(request, places)
    const isFull = () => registry.size >= MAX_ENDPOINTS && registry.get(endpoint.uid) === undefined
    if (isFull()) await makeRoom()
    if (stop.signal.aborted)
      throw new RegistrationRefusedError(status.UNAVAILABLE, 'the agent ends')
    const registered = registry.get(endpoint.uid)
    const { name, uid, owner, shared } = endpoint
    if (registered instanceof RemoteEndpoint) {
      if (registered.registerAgain(endpoint))
        log.info({ handler: name, endpoint: uid }, 'handler registered again')
      registry.register(registered)
      return
    }
    if (isFull()) throw noRoom()
    registry.register(endpoint)
    log.info({ handler: name, endpoint: uid, owner, shared }, 'handler registered')
  }
  const restore = async ({ name, socket, shared, owner }: RememberedHandler) => {
    try {
      checkName(name, names)
      const endpoint = await endpointOf(
        {
          name,
          endpoint: socket,
          endpointType: RegisterDiscoveryHandlerRequest_EndpointType.UDS,
          shared,
        },
        places,
      )
      if (endpoint.owner !== owner || !(await isServed(socket)) || stop.signal.aborted) return
      // It may have registered meanwhile.
      if (registry.get(endpoint.uid) !== undefined) return
      if (registry.size >= MAX_ENDPOINTS) throw noRoom()
      registry.register(endpoint)
      log.info({ handler: name, endpoint: endpoint.uid, owner, shared }, 'handler remembered')
    } catch (error) {
      log.info({ handler: name, endpoint: socket, err: error }, 'handler not remembered')
    }
  }
  server.addService(RegistrationService, {
    registerDiscoveryHandler: (
      call: ServerUnaryCall<RegisterDiscoveryHandlerRequest, Empty>,
      answer: sendUnaryData<Empty>,
    ) => {
      register(call.request).then(
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
  const connections = new Set<net.Socket>()
  const listener = net.createServer((connection) => {
    // A handler of the SDK whose connection ends registers again.
    const [oldest] = connections
    if (oldest !== undefined && connections.size >= MAX_REGISTRATION_CONNECTIONS) {
      connections.delete(oldest)
      oldest.destroy()
    }
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
    // Without a listener, the reset of a connection would end the process.
    connection.on('error', () => connection.destroy())
    injector.injectConnection(connection)
  })
  listener.listen(socket)
  await once(listener, 'listening').catch((error: unknown) => {
    const message = `cannot listen on ${socket}: ${messageOf(error)}`
    throw new SocketUnusableError(message, { cause: error })
  })
  listener.on('error', (err) => log.error({ err }, 'connection of a handler not accepted'))
  if (opened) await giveToGroup(socket, group)
  await chmod(socket, 0o660)
  const { ino } = await lstat(socket)
  return {
    socket,
    restore: async (handlers) => void (await Promise.all(handlers.map(restore))),
    async close() {
      stop.abort()
      server.forceShutdown()
      const closed = once(listener, 'close')
      listener.close()
      for (const connection of connections) connection.destroy()
      await closed
      // During an upgrade the socket of the next agent may be there.
      const found = await lstat(socket).catch(() => undefined)
      if (found?.ino === ino) await rm(socket, { force: true })
    },
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

function noRoom(): RegistrationRefusedError {
  return new RegistrationRefusedError(
    status.RESOURCE_EXHAUSTED,
    `the agent has ${MAX_ENDPOINTS} endpoints of handlers, the most that it accepts, and each is ` +
      'still served; end a handler that is not needed, and this one can register',
  )
}
