import { chmod, lstat, realpath, rm } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import path from 'node:path'
import { type Empty, type RegisterDiscoveryHandlerRequest, RegistrationService } from '@akrijs/proto/discovery'
import { AkriError, type Logger, messageOf } from '@akrijs/sdk'
import { AGENT_SOCKET, makeRoomForSocket, SocketUnusableError } from '@akrijs/sdk/host'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import type { HandlerRegistry } from './handler-registry.js'
import { type EndpointAddress, RemoteEndpoint } from './remote-endpoint.js'

export interface RegistrationServerOptions {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  readonly registry: HandlerRegistry
  readonly log: Logger
}

/** The most endpoints that are known at once, and of one name: a flood must not take the memory of the agent. */
const MAX_ENDPOINTS = 256
const MAX_ENDPOINTS_PER_NAME = 32

export interface RegistrationServer {
  readonly socket: string
  close(): Promise<void>
}

/** Takes the registrations of handlers. Whatever comes in is checked: anything on the node may write to the socket. */
export async function serveRegistration({ directory, registry, log }: RegistrationServerOptions): Promise<RegistrationServer> {
  const socket = path.join(directory, AGENT_SOCKET)
  await makeRoomForSocket(socket)
  const server = new Server({ 'grpc.max_receive_message_length': 64 * 1024 })
  server.addService(RegistrationService, {
    registerDiscoveryHandler: (call: ServerUnaryCall<RegisterDiscoveryHandlerRequest, Empty>, answer: sendUnaryData<Empty>) => {
      register(call.request, directory, registry).then(
        (endpoint) => {
          log.info({ handler: endpoint.name, endpoint: endpoint.uid, shared: endpoint.shared }, 'handler registered')
          answer(null, {})
        },
        (error: unknown) => {
          log.warn({ error: messageOf(error) }, 'registration refused')
          answer({ code: error instanceof RegistrationRefusedError ? error.status : status.INTERNAL, details: messageOf(error) })
        },
      )
    },
  })
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error) reject(new SocketUnusableError(`cannot listen on ${socket}: ${error.message}`, { cause: error }))
      else resolve()
    })
  })
  await chmod(socket, 0o660)
  const { ino } = await lstat(socket)
  return {
    socket,
    async close() {
      server.forceShutdown()
      // An agent that took our place during an upgrade has a socket of its own there.
      const now = await lstat(socket).catch(() => undefined)
      if (now?.ino === ino) await rm(socket, { force: true })
    },
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

async function register(
  { name, endpoint, endpointType, shared }: RegisterDiscoveryHandlerRequest,
  directory: string,
  registry: HandlerRegistry,
): Promise<RemoteEndpoint> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw invalid(`name ${shown(name)} is not a handler name; it has letters, digits, '-', '_' and '.', 63 characters at most`)
  }
  const address = await addressOf(endpoint, endpointType, directory)
  const remote = new RemoteEndpoint(name, shared, address)
  const known = registry.endpoints(name)
  if (!known.some(({ uid }) => uid === remote.uid)) {
    if (known.length >= MAX_ENDPOINTS_PER_NAME || registry.size >= MAX_ENDPOINTS) {
      throw new RegistrationRefusedError(
        status.RESOURCE_EXHAUSTED,
        `there are ${known.length} endpoints of ${name} and ${registry.size} in all; no more are taken`,
      )
    }
  }
  registry.register(remote)
  return remote
}

async function addressOf(endpoint: string, type: number, directory: string): Promise<EndpointAddress> {
  if (type === 0) return { type: 'unix', path: await checkedSocket(endpoint, directory) }
  if (type === 1) return { type: 'network', host: checkedHost(endpoint) }
  throw invalid(`endpoint_type ${type} is not known; it is UDS (0) or NETWORK (1)`)
}

/** A handler's socket must be in the directory that it shares with the agent: nothing else is to be dialled in its name. */
async function checkedSocket(endpoint: string, directory: string): Promise<string> {
  if (!path.isAbsolute(endpoint) || endpoint.includes('\0')) throw invalid(`endpoint ${shown(endpoint)} is not an absolute path`)
  const home = await realpath(directory)
  let real: string
  try {
    real = await realpath(endpoint)
  } catch {
    throw invalid(`endpoint ${shown(endpoint)} is not there`)
  }
  if (path.dirname(real) !== home) throw invalid(`endpoint ${shown(endpoint)} is not in ${directory}`)
  if (!(await lstat(real)).isSocket()) throw invalid(`endpoint ${shown(endpoint)} is not a socket`)
  if (path.basename(real) === AGENT_SOCKET) throw invalid(`endpoint ${shown(endpoint)} is the agent's own`)
  return real
}

function checkedHost(endpoint: string): string {
  const refuse = () => invalid(`endpoint ${shown(endpoint)} is not http://address:port`)
  if (endpoint.length > 512 || !URL.canParse(endpoint)) throw refuse()
  const { protocol, hostname, port, pathname, search, username } = new URL(endpoint)
  const plain = protocol === 'http:' && (pathname === '/' || pathname === '') && search === '' && username === ''
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
