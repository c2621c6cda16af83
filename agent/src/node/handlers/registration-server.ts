import { chmod, lstat, rm } from 'node:fs/promises'
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
import { BoundedListener } from '@akrijs/runtime/server'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { roomFor } from '../../core/discovery/endpoint-room.js'
import type { HandlerRegistry } from '../../core/discovery/handler-registry.js'
import type { HandlerAddresses } from '../../ports/handler-addresses.js'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'
import { AddressHolders } from './address-holders.js'
import { HANDLER_CONNECTION_LIMITS, HandlerConnections } from './handler-connections.js'
import { giveToGroup, openDirectoryToGroup } from './handlers-directory.js'
import { registrationLog } from './registration-log.js'
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
  const connections = new HandlerConnections(clock)
  const stop = new AbortController()
  const places = { directory, holders: new AddressHolders(addresses, clock, stop.signal) }
  registry.onChange(({ dropped }) => {
    if (dropped !== undefined) connections.endSoon(dropped.uid)
  }, stop.signal)
  const lines = registrationLog(log, clock)
  const register = async (request: RegisterDiscoveryHandlerRequest, peer: string) => {
    if (!connections.mayRegister(peer)) {
      throw new RegistrationRefusedError(
        status.RESOURCE_EXHAUSTED,
        'too many registrations over one connection; register again later',
      )
    }
    checkName(request.name, names)
    const endpoint = await endpointOf(request, places)
    if (stop.signal.aborted)
      throw new RegistrationRefusedError(status.UNAVAILABLE, 'the agent ends')
    const registered = registry.get(endpoint.uid)
    if (registered instanceof RemoteEndpoint) {
      if (registered.registerAgain(endpoint))
        lines.info(
          { handler: registered.name, endpoint: registered.uid },
          'handler registered again',
        )
      registry.register(registered)
      connections.registered(registered.uid, peer)
      return
    }
    const replaced = makeRoom(endpoint, registry)
    registry.register(endpoint)
    connections.registered(endpoint.uid, peer)
    const { name, uid, owner, shared } = endpoint
    lines.info({ handler: name, endpoint: uid, owner, shared }, 'handler registered')
    if (replaced !== undefined)
      lines.warn(
        { handler: replaced.name, endpoint: replaced.uid, owner: replaced.owner, by: uid },
        'handler replaced: too many endpoints',
      )
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
      if (roomFor(endpoint, registry.all, (each) => registry.useOf(each)).kind !== 'free') return
      registry.register(endpoint)
      lines.info({ handler: name, endpoint: endpoint.uid, owner, shared }, 'handler remembered')
    } catch (error) {
      lines.info({ handler: name, endpoint: socket, err: error }, 'handler not remembered')
    }
  }
  server.addService(RegistrationService, {
    registerDiscoveryHandler: (
      call: ServerUnaryCall<RegisterDiscoveryHandlerRequest, Empty>,
      answer: sendUnaryData<Empty>,
    ) => {
      register(call.request, call.getPeer()).then(
        () => answer(null, {}),
        (error: unknown) => {
          lines.warn({ err: error }, 'registration refused')
          answer({
            code: error instanceof RegistrationRefusedError ? error.status : status.INTERNAL,
            details: messageOf(error),
          })
        },
      )
    },
  })
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listener = new BoundedListener({
    name: 'registration',
    limits: HANDLER_CONNECTION_LIMITS,
    clock,
    log,
    onConnection(connection) {
      connections.add(connection)
      injector.injectConnection(connection.socket)
    },
  })
  await listener.listen({ path: socket }).catch((error: unknown) => {
    const message = `cannot listen on ${socket}: ${messageOf(error)}`
    throw new SocketUnusableError(message, { cause: error })
  })
  if (opened) await giveToGroup(socket, group)
  await chmod(socket, 0o660)
  const { ino } = await lstat(socket)
  return {
    socket,
    restore: async (handlers) => void (await Promise.all(handlers.map(restore))),
    async close() {
      stop.abort()
      server.forceShutdown()
      connections.close()
      await listener.close()
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

/**
 * Drops an endpoint if a bound is reached.
 * @returns the dropped endpoint
 * @throws RegistrationRefusedError if no endpoint gives way
 */
function makeRoom(
  { name, owner }: RemoteEndpoint,
  registry: HandlerRegistry,
): HandlerEndpoint | undefined {
  const room = roomFor({ name, owner }, registry.all, (endpoint) => registry.useOf(endpoint))
  if (room.kind === 'free') return undefined
  if (room.kind === 'none') {
    throw new RegistrationRefusedError(
      status.RESOURCE_EXHAUSTED,
      `${registry.endpoints(name).length} endpoints of ${name} and ${registry.size} in all ` +
        `are registered and in use; there is no room for another endpoint of ${owner}`,
    )
  }
  registry.drop(room.endpoint)
  return room.endpoint
}
