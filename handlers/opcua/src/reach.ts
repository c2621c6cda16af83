import {
  AllowedNetworks,
  HostNameError,
  type HostNames,
  machineAddresses,
  machineNetworks,
  type Network,
  readNetworks,
} from '@akrijs/sdk/network'
import { readEndpointUrl } from './endpoint-url.js'
import { OpcuaAddressError, OpcuaUnreachableError } from './errors.js'
import type { OpcuaServer } from './opcua-server.js'
import type { Target } from './ua-tcp/index.js'

interface ReachOptions {
  /** `allowedNetworks` of the details. */
  readonly allowedNetworks: readonly Network[] | undefined
  readonly hostNames: HostNames
  /** The networks of this machine. @default `machineNetworks()` at each call */
  readonly ownNetworks?: (() => readonly Network[]) | undefined
  /** The addresses of this machine. @default `machineAddresses()` at each call */
  readonly ownAddresses?: (() => readonly string[]) | undefined
}

/** The networks that always belong to this machine. */
const LOOPBACK = readNetworks(['127.0.0.0/8', '::1'])

/**
 * The servers that the handler may call, and their addresses. Any program that registers with a
 * discovery server or sends mDNS can announce any address. The announcement must not decide where
 * the handler calls.
 */
export class Reach {
  readonly #hostNames: HostNames
  readonly #ownNetworks: () => readonly Network[]
  readonly #ownAddresses: () => readonly string[]
  /** Undefined without `allowedNetworks`. */
  readonly #allowed: AllowedNetworks | undefined

  constructor({
    allowedNetworks,
    hostNames,
    ownNetworks = () => machineNetworks(),
    ownAddresses = () => machineAddresses(),
  }: ReachOptions) {
    this.#hostNames = hostNames
    this.#ownNetworks = ownNetworks
    this.#ownAddresses = ownAddresses
    this.#allowed = allowedNetworks === undefined ? undefined : new AllowedNetworks(allowedNetworks)
  }

  /** All addresses of a server, also the addresses that the handler may not call. */
  readonly addressesOf = async ({
    discoveryUrl,
    addresses,
  }: OpcuaServer): Promise<readonly string[]> => {
    const host = readEndpointUrl(discoveryUrl)?.host
    return addresses ?? (host === undefined ? [] : await addressesIfAny(this.#hostNames, host))
  }

  /**
   * The addresses and the port of a server. Undefined if the handler may call no address, or the
   * server has none.
   */
  async targetOf(server: OpcuaServer): Promise<Target | undefined> {
    const port = readEndpointUrl(server.discoveryUrl)?.port
    const allowed = this.#allowed ?? this.#nearby(server)
    const addresses = (await this.addressesOf(server)).filter((address) => allowed.allows(address))
    return port === undefined || addresses.length === 0
      ? undefined
      : { addresses, port, endpointUrl: server.discoveryUrl }
  }

  /** Why {@link targetOf} gives nothing. */
  async problemOf(server: OpcuaServer): Promise<OpcuaAddressError | OpcuaUnreachableError> {
    const addresses = await this.addressesOf(server)
    if (addresses.length > 0)
      return new OpcuaAddressError(`${addresses.join(', ')}: outside the callable networks`)
    const host = readEndpointUrl(server.discoveryUrl)?.host ?? ''
    const cause = new HostNameError(host, 'it has no address')
    return new OpcuaUnreachableError(cause.message, { cause })
  }

  /**
   * The servers in `allowedNetworks`; all servers without `allowedNetworks`. Resolves all host
   * names at the same time.
   */
  async withinAllowedNetworks(servers: readonly OpcuaServer[]): Promise<readonly OpcuaServer[]> {
    if (this.#allowed === undefined) return servers
    const targets = await Promise.all(servers.map((server) => this.targetOf(server)))
    return servers.filter((_, index) => targets[index] !== undefined)
  }

  /** Only a discovery server on this machine can list a server on this machine. */
  #nearby({ listedFrom = [] }: OpcuaServer): AllowedNetworks {
    const addresses = this.#ownAddresses()
    const machine = new AllowedNetworks([...LOOPBACK, ...readNetworks(addresses)])
    const isListedHere = listedFrom.some((address) => machine.allows(address))
    return new AllowedNetworks([...this.#ownNetworks(), ...readNetworks(listedFrom)], {
      ownAddresses: isListedHere ? [] : addresses,
    })
  }
}

/** The addresses of a host; none if its name does not resolve. */
export async function addressesIfAny(
  hostNames: HostNames,
  host: string,
): Promise<readonly string[]> {
  try {
    return await hostNames.addressesOf(host)
  } catch (error) {
    if (HostNameError.is(error)) return []
    throw error
  }
}
