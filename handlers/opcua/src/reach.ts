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
import type { OpcuaServer } from './opcua-server.js'
import type { Target } from './ua-tcp/client.js'

export interface ReachOptions {
  /** `allowedNetworks` of the details. */
  readonly allowedNetworks: readonly Network[] | undefined
  readonly hostNames: HostNames
  /** The networks that this machine is in. @default as its interfaces have them now, without loopback and those of containers */
  readonly ownNetworks?: (() => readonly Network[]) | undefined
  /** The addresses of this machine. @default all that its interfaces have now */
  readonly ownAddresses?: (() => readonly string[]) | undefined
}

/** What stands for this machine whatever addresses it has. */
const LOOPBACK = readNetworks(['127.0.0.0/8', '::1'])

/**
 * Which of the servers that were found may be called, and where. Whoever can register with a discovery server, or speak mDNS,
 * can name any address; whether an agent calls there is not for them to decide.
 */
export class Reach {
  readonly #hostNames: HostNames
  readonly #ownNetworks: () => readonly Network[]
  readonly #ownAddresses: () => readonly string[]
  readonly #named: AllowedNetworks | undefined

  constructor({
    allowedNetworks,
    hostNames,
    ownNetworks = () => machineNetworks(),
    ownAddresses = () => machineAddresses(),
  }: ReachOptions) {
    this.#hostNames = hostNames
    this.#ownNetworks = ownNetworks
    this.#ownAddresses = ownAddresses
    this.#named = allowedNetworks === undefined ? undefined : new AllowedNetworks(allowedNetworks)
  }

  /** Where a server is, whether it may be called there or not. */
  readonly addressesOf = async ({
    discoveryUrl,
    addresses,
  }: OpcuaServer): Promise<readonly string[]> => {
    const host = readEndpointUrl(discoveryUrl)?.host
    return addresses ?? (host === undefined ? [] : await addressesIfAny(this.#hostNames, host))
  }

  /** Where a server may be called; undefined where it may not be, or nobody knows where it is. */
  async targetOf(server: OpcuaServer): Promise<Target | undefined> {
    const port = readEndpointUrl(server.discoveryUrl)?.port
    const allowed = this.#named ?? this.#near(server)
    const addresses = (await this.addressesOf(server)).filter((address) => allowed.allows(address))
    return port === undefined || addresses.length === 0
      ? undefined
      : { addresses, port, endpointUrl: server.discoveryUrl }
  }

  /** Those that are where servers may be: anywhere, unless the details name networks. Waits for all host names together. */
  async withinAllowedNetworks(servers: readonly OpcuaServer[]): Promise<readonly OpcuaServer[]> {
    if (this.#named === undefined) return servers
    const targets = await Promise.all(servers.map((server) => this.targetOf(server)))
    return servers.filter((_, index) => targets[index] !== undefined)
  }

  /** Others on the network do not lead to this machine itself; a discovery server that runs here does. */
  #near({ listedFrom = [] }: OpcuaServer): AllowedNetworks {
    const own = this.#ownAddresses()
    const here = new AllowedNetworks([...LOOPBACK, ...readNetworks(own)])
    const isListedHere = listedFrom.some((address) => here.allows(address))
    return new AllowedNetworks([...this.#ownNetworks(), ...readNetworks(listedFrom)], {
      ownAddresses: isListedHere ? [] : own,
    })
  }
}

/** The addresses of a host; none where its name does not resolve. */
export async function addressesIfAny(
  hostNames: HostNames,
  host: string,
): Promise<readonly string[]> {
  try {
    return await hostNames.addressesOf(host)
  } catch (error) {
    if (error instanceof HostNameError) return []
    throw error
  }
}
