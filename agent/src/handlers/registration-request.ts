import { lstat, realpath } from 'node:fs/promises'
import { isIP, isIPv6 } from 'node:net'
import path from 'node:path'
import type { RegisterDiscoveryHandlerRequest } from '@akrijs/proto/discovery'
import { defineError, isServed, messageOf } from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import { hostOf, plainAddress } from '@akrijs/sdk/network'
import { status } from '@grpc/grpc-js'
import type { HandlerAddresses } from './handler-addresses.js'
import { isHandlerName, quote } from './handler-endpoint.js'
import { type EndpointAddress, RemoteEndpoint } from './remote-endpoint.js'

/** A registration is refused. The handler gets the message. */
export class RegistrationRefusedError extends defineError(
  'AKRI_ERR_REGISTRATION_REFUSED',
  'terminal',
) {
  readonly status: status

  constructor(code: status, message: string) {
    super(message)
    this.status = code
  }
}

/** Where handlers may serve. */
export interface EndpointPlaces {
  /** The directory of the sockets of handlers. */
  readonly directory: string
  /** @default no address */
  readonly addresses: HandlerAddresses | undefined
  /** The holder of an address now, or within some seconds. */
  holderSoon(address: string): Promise<string | undefined>
}

/**
 * Checks a registration: any process of the node may write to the socket. @throws
 * RegistrationRefusedError
 */
export async function endpointOf(
  { name, endpoint, endpointType, shared }: RegisterDiscoveryHandlerRequest,
  places: EndpointPlaces,
): Promise<RemoteEndpoint> {
  if (!isHandlerName(name)) {
    throw invalid(
      `name ${quote(name)} is not a handler name; it has letters, digits, '-', '_' and '.', ` +
        '63 characters at most',
    )
  }
  return new RemoteEndpoint(name, shared, await addressOf(endpoint, endpointType, places))
}

async function addressOf(
  endpoint: string,
  type: number,
  places: EndpointPlaces,
): Promise<EndpointAddress> {
  if (type === 0) {
    const socket = await checkedSocket(endpoint, places.directory)
    return {
      ...socket,
      problem: () =>
        checkedSocket(socket.endpoint, places.directory).then(() => undefined, messageOf),
      isServed: () => isServed(socket.endpoint),
    }
  }
  if (type === 1) return networkAddress(endpoint, places)
  throw invalid(`endpoint_type ${type} is not known; it is UDS (0) or NETWORK (1)`)
}

/**
 * An endpoint gets the credentials of Configurations. So its address belongs to a Pod of this node,
 * or the operator allows the address. The next Pod with the same address has to register itself.
 */
async function networkAddress(
  endpoint: string,
  { addresses, holderSoon }: EndpointPlaces,
): Promise<EndpointAddress> {
  const { host, address, port } = checkedHost(endpoint)
  const holder = await holderSoon(address)
  if (holder === undefined)
    throw new RegistrationRefusedError(
      status.PERMISSION_DENIED,
      `endpoint ${quote(endpoint)}: ${address} is not the address of a Pod on this node; ` +
        'register from a Pod of this node, or name the address in AKRI_HANDLER_ADDRESSES of ' +
        'the agent (chart: agent.handlerAccess.addresses)',
    )
  const problem = async () =>
    addresses?.holderOf(address) === holder
      ? undefined
      : `${address} no longer belongs to the Pod that registered`
  return {
    endpoint: `http://${host}`,
    owner: `address ${address}`,
    problem,
    isServed: () => isServed({ host: address, port }),
  }
}

/**
 * A handler's socket must be in the directory that handlers share with the agent: the agent dials
 * no other socket.
 */
async function checkedSocket(
  endpoint: string,
  directory: string,
): Promise<Pick<EndpointAddress, 'endpoint' | 'owner'>> {
  const refusal = (problem: string) => invalid(`endpoint ${quote(endpoint)} ${problem}`)
  if (!path.isAbsolute(endpoint) || endpoint.includes('\0'))
    throw refusal('is not an absolute path')
  const home = await realpath(directory)
  const real = await realpath(endpoint).catch(() => {
    throw refusal('is not there')
  })
  if (path.dirname(real) !== home) throw refusal(`is not in ${directory}`)
  const found = await lstat(real)
  if (!found.isSocket()) throw refusal('is not a socket')
  if (path.basename(real) === AGENT_SOCKET) throw refusal("is the agent's socket")
  // A process that is not root cannot make a socket of another user.
  return { endpoint: real, owner: `user ${found.uid}` }
}

function checkedHost(endpoint: string): {
  readonly host: string
  readonly address: string
  readonly port: number
} {
  const refuse = () => invalid(`endpoint ${quote(endpoint)} is not http://address:port`)
  if (endpoint.length > 512 || !URL.canParse(endpoint)) throw refuse()
  const url = new URL(endpoint)
  const { protocol, pathname, search, username, password } = url
  const address = plainAddress(hostOf(url))
  const rest = `${pathname}${search}${username}${password}`
  // The name of a host could mean another host at the next look.
  if (protocol !== 'http:' || !['', '/'].includes(rest) || isIP(address) === 0) throw refuse()
  // URL drops the default port of http.
  const port = url.port === '' ? 80 : Number(url.port)
  const host = `${isIPv6(address) ? `[${address}]` : address}:${port}`
  return { host, address, port }
}

function invalid(message: string): RegistrationRefusedError {
  return new RegistrationRefusedError(status.INVALID_ARGUMENT, message)
}
