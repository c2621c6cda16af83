import { lstat, realpath } from 'node:fs/promises'
import { isIP, isIPv6 } from 'node:net'
import path from 'node:path'
import type { RegisterDiscoveryHandlerRequest } from '@akrijs/proto/discovery'
import { defineError, isServed, messageOf } from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import { AllowedNetworks, hostOf, plainAddress, readNetworks } from '@akrijs/sdk/network'
import { status } from '@grpc/grpc-js'
import { isHandlerName, quote } from './handler-endpoint.js'
import { type EndpointAddress, RemoteEndpoint } from './remote-endpoint.js'

/** The handler gets the message. */
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

/** The network addresses at which the agent dials handlers. */
export interface HandlerAddresses {
  /**
   * @param address an IP address
   * @returns the present holder of the address, by a name that is unique; undefined if the agent
   * must not dial the address
   */
  holderOf(address: string): string | undefined
}

/** The addresses of Pods, and those in networks that the operator allows. */
export class AllowedAddresses implements HandlerAddresses {
  readonly #networks: AllowedNetworks
  readonly #pods: HandlerAddresses | undefined

  /** @param pods @default no address of a Pod */
  constructor(networks: readonly string[], pods?: HandlerAddresses) {
    this.#networks = new AllowedNetworks(readNetworks(networks))
    this.#pods = pods
  }

  holderOf(address: string): string | undefined {
    const plain = plainAddress(address)
    return this.#networks.allows(plain) ? 'rule' : this.#pods?.holderOf(plain)
  }
}

/**
 * Checks a registration: any process of the node may write to the socket.
 * @param directory of the sockets of handlers
 * @param holderOf the present holder of an address
 * @param holderSoon the holder of an address now, or within some seconds
 * @throws RegistrationRefusedError
 */
export async function endpointOf(
  { name, endpoint, endpointType: type, shared }: RegisterDiscoveryHandlerRequest,
  directory: string,
  holderOf: (address: string) => string | undefined,
  holderSoon: (address: string) => Promise<string | undefined>,
): Promise<RemoteEndpoint> {
  if (!isHandlerName(name))
    throw invalid(
      `name ${quote(name)} is not a handler name; it has letters, digits, '-', '_' and '.', ` +
        '63 characters at most',
    )
  if (type !== 0 && type !== 1)
    throw invalid(`endpoint_type ${type} is not known; it is UDS (0) or NETWORK (1)`)
  if (type === 0) {
    const socket = await checkedSocket(endpoint, directory)
    return new RemoteEndpoint(name, shared, {
      ...socket,
      problem: () => checkedSocket(socket.endpoint, directory).then(() => undefined, messageOf),
      isServed: () => isServed(socket.endpoint),
    })
  }
  const { address, port } = checkedAddress(endpoint)
  const host = isIPv6(address) ? `[${address}]` : address
  // An endpoint gets the credentials of Configurations. So its address belongs to a Pod of this
  // node, or the operator allows it. The next Pod with the address has to register itself.
  const holder = await holderSoon(address)
  if (holder === undefined)
    throw new RegistrationRefusedError(
      status.PERMISSION_DENIED,
      `endpoint ${quote(endpoint)}: ${address} is not the address of a Pod on this node; ` +
        'register from a Pod of this node, or name the address in AKRI_HANDLER_ADDRESSES of ' +
        'the agent (chart: agent.handlerAccess.addresses)',
    )
  return new RemoteEndpoint(name, shared, {
    endpoint: `http://${host}:${port}`,
    owner: `address ${address}`,
    problem: async () =>
      holderOf(address) === holder
        ? undefined
        : `${address} no longer belongs to the Pod that registered`,
    isServed: () => isServed({ host: address, port }),
  })
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

function checkedAddress(endpoint: string): { readonly address: string; readonly port: number } {
  const refuse = () => invalid(`endpoint ${quote(endpoint)} is not http://address:port`)
  if (endpoint.length > 512 || !URL.canParse(endpoint)) throw refuse()
  const url = new URL(endpoint)
  const { protocol, pathname, search, username, password } = url
  const address = plainAddress(hostOf(url))
  const rest = `${pathname}${search}${username}${password}`
  // The name of a host could mean another host at the next look.
  if (protocol !== 'http:' || !['', '/'].includes(rest) || isIP(address) === 0) throw refuse()
  // URL drops the default port of http.
  return { address, port: url.port === '' ? 80 : Number(url.port) }
}

function invalid(message: string): RegistrationRefusedError {
  return new RegistrationRefusedError(status.INVALID_ARGUMENT, message)
}
