import { lstat, realpath } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import path from 'node:path'
import type { RegisterDiscoveryHandlerRequest } from '@akrijs/proto/discovery'
import { AkriError } from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import { status } from '@grpc/grpc-js'
import { isHandlerName } from '../../ports/handler-endpoint.js'
import { type EndpointAddress, RemoteEndpoint } from './remote-endpoint.js'

/** A registration is refused. The handler gets the message. */
export class RegistrationRefusedError extends AkriError {
  readonly status: status

  constructor(code: status, message: string) {
    super('AKRI_ERR_REGISTRATION_REFUSED', 'terminal', message)
    this.name = 'RegistrationRefusedError'
    this.status = code
  }
}

/**
 * Checks a registration: any process of the node may write to the socket. @throws
 * RegistrationRefusedError
 */
export async function endpointOf(
  { name, endpoint, endpointType, shared }: RegisterDiscoveryHandlerRequest,
  directory: string,
): Promise<RemoteEndpoint> {
  if (!isHandlerName(name)) {
    throw invalid(
      `name ${shown(name)} is not a handler name; it has letters, digits, '-', '_' and '.', 63 characters at most`,
    )
  }
  return new RemoteEndpoint(name, shared, await addressOf(endpoint, endpointType, directory))
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

/**
 * A handler's socket must be in the directory that handlers share with the agent: the agent dials
 * no other socket.
 */
async function checkedSocket(endpoint: string, directory: string): Promise<string> {
  const refusal = (problem: string) => invalid(`endpoint ${shown(endpoint)} ${problem}`)
  if (!path.isAbsolute(endpoint) || endpoint.includes('\0'))
    throw refusal('is not an absolute path')
  const home = await realpath(directory)
  const real = await realpath(endpoint).catch(() => {
    throw refusal('is not there')
  })
  if (path.dirname(real) !== home) throw refusal(`is not in ${directory}`)
  if (!(await lstat(real)).isSocket()) throw refusal('is not a socket')
  if (path.basename(real) === AGENT_SOCKET) throw refusal("is the agent's socket")
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
  // URL drops the default port of http.
  return `${isIPv6(bare) ? `[${bare}]` : bare}:${port === '' ? '80' : port}`
}

function invalid(message: string): RegistrationRefusedError {
  return new RegistrationRefusedError(status.INVALID_ARGUMENT, message)
}

function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}
