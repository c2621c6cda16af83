import { isIP } from 'node:net'
import { messageOf, systemClock } from '@akrijs/sdk'
import {
  AllowedNetworks,
  HostNames,
  hostOf,
  isLinkLocal,
  type Network,
  readNetworks,
} from '@akrijs/sdk/network'
import { OnvifAddressError, OnvifUnreachableError } from './errors.js'

/**
 * The target of a request. The request connects to this address, so no second lookup can change the
 * target.
 */
export interface Destination {
  readonly url: URL
  /** With a zone if it is a link-local address. */
  readonly address: string
}

interface DestinationOptions {
  /** The interface of link-local IPv6 addresses, such as `eth0`. */
  readonly zone?: string | undefined
  /** @default http and https */
  readonly protocols?: readonly string[]
}

interface NetworkPolicyOptions {
  /** Resolves host names. Its errors name the host and the reason. @default a new object */
  readonly hostNames?: Pick<HostNames, 'addressesOf'>
  /**
   * The addresses of this machine. The handler may call each of them only if its own network is
   * allowed.
   * @default none
   */
  readonly ownAddresses?: readonly string[]
}

const WEB = ['http:', 'https:']

/**
 * The addresses that the handler may call. Cameras announce their own addresses, and any host can
 * claim to be a camera.
 */
export class NetworkPolicy {
  readonly #allowed: AllowedNetworks
  readonly #machine: AllowedNetworks
  readonly #hostNames: Pick<HostNames, 'addressesOf'>

  constructor(
    networks: readonly Network[],
    {
      hostNames = new HostNames({ clock: systemClock }),
      ownAddresses = [],
    }: NetworkPolicyOptions = {},
  ) {
    this.#hostNames = hostNames
    this.#allowed = new AllowedNetworks(networks, { ownAddresses })
    this.#machine = new AllowedNetworks(readNetworks(ownAddresses))
  }

  /** Whether the handler may call an address, with or without a zone. */
  allows(address: string): boolean {
    return this.#allowed.allows(address)
  }

  /**
   * Reads a URL from a camera. {@link destination} resolves a host name later.
   * @throws OnvifAddressError with the reason, and without a password
   */
  read(text: string, protocols: readonly string[] = WEB): URL {
    const url = readUrl(text, protocols)
    const host = hostOf(url)
    if (isIP(host) > 0) this.#check(host)
    return url
  }

  /**
   * The destination of a URL from a camera. All addresses of a host name must be allowed.
   * @throws OnvifAddressError with the reason; OnvifUnreachableError if the host name has no
   * address
   */
  async destination(
    text: string,
    { zone, protocols }: DestinationOptions = {},
  ): Promise<Destination> {
    const url = this.read(text, protocols)
    const host = hostOf(url)
    const addresses = isIP(host) > 0 ? [host] : await this.#addressesOf(host)
    for (const address of addresses) this.#check(address, address === host ? '' : ` (${host})`)
    const [address] = addresses
    if (address === undefined) throw new OnvifUnreachableError(`${host} has no address`)
    return {
      url,
      address: zone !== undefined && isLinkLocal(address) ? `${address}%${zone}` : address,
    }
  }

  #check(address: string, hostName = ''): void {
    if (this.allows(address)) return
    const reason = this.#machine.allows(address)
      ? 'is an address of this machine, which allowedNetworks does not name'
      : 'is not in the allowed networks'
    throw new OnvifAddressError(`${address}${hostName} ${reason}`)
  }

  async #addressesOf(host: string): Promise<readonly string[]> {
    try {
      return await this.#hostNames.addressesOf(host)
    } catch (error) {
      throw new OnvifUnreachableError(messageOf(error), { cause: error })
    }
  }
}

function readUrl(text: string, protocols: readonly string[]): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.hostname === '')
    throw new OnvifAddressError(`${withoutPassword(text)} is not the URL of a service`)
  if (!protocols.includes(url.protocol)) {
    const schemes = protocols.map((protocol) => `${protocol}//`).join(' or ')
    throw new OnvifAddressError(`${withoutPassword(text)} does not start with ${schemes}`)
  }
  if (url.username !== '' || url.password !== '')
    throw new OnvifAddressError(
      `the URL of ${url.host} has a user name, which the URL of a camera never has`,
    )
  return url
}

/**
 * The quoted text without a possible user name and password, which can also be the reason that it
 * is not a URL.
 */
function withoutPassword(text: string): string {
  const at = text.lastIndexOf('@')
  const [scheme = ''] = /^[a-z][a-z\d+.-]*:\/*/i.exec(text.slice(0, Math.max(at, 0))) ?? []
  const safe = at < 0 ? text : `${scheme}…${text.slice(at)}`
  return JSON.stringify(safe.length > 100 ? `${safe.slice(0, 100)}…` : safe)
}
