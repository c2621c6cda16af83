import { isIP } from 'node:net'
import { messageOf } from '@akrijs/sdk'
import {
  AllowedNetworks,
  HostNames,
  hostOf,
  isLinkLocal,
  type Network,
  readNetworks,
} from '@akrijs/sdk/network'
import { OnvifAddressError, OnvifUnreachableError } from './errors.js'

/** Where a request goes: this very address is connected to, so that no name can mean another one in between. */
export interface Destination {
  readonly url: URL
  /** With its zone where it is link-local. */
  readonly address: string
}

export interface DestinationOptions {
  /** The interface through which link-local IPv6 addresses are reached, such as `eth0`. */
  readonly zone?: string | undefined
  /** @default http and https */
  readonly protocols?: readonly string[]
}

export interface NetworkPolicyOptions {
  /** What host names mean. What it rejects with says which name, and why it has none. @default its own */
  readonly hostNames?: Pick<HostNames, 'addressesOf'>
  /** Addresses of this machine: each may be spoken to only where it is named itself. @default none */
  readonly ownAddresses?: readonly string[]
}

const WEB = ['http:', 'https:']

/** Which addresses may be spoken to. Cameras name addresses themselves, and anybody on the network can say to be a camera. */
export class NetworkPolicy {
  readonly #allowed: AllowedNetworks
  readonly #own: AllowedNetworks
  readonly #hostNames: Pick<HostNames, 'addressesOf'>

  constructor(
    networks: readonly Network[],
    { hostNames = new HostNames(), ownAddresses = [] }: NetworkPolicyOptions = {},
  ) {
    this.#hostNames = hostNames
    this.#allowed = new AllowedNetworks(networks, { ownAddresses })
    this.#own = new AllowedNetworks(readNetworks(ownAddresses))
  }

  /** Whether this address, with or without a zone, may be spoken to. */
  allows(address: string): boolean {
    return this.#allowed.allows(address)
  }

  /**
   * Reads a URL that a camera names. What a host name means is seen when it is asked.
   * @throws OnvifAddressError naming what is wrong, without what is secret in it
   */
  read(text: string, protocols: readonly string[] = WEB): URL {
    const url = readUrl(text, protocols)
    const host = hostOf(url)
    if (isIP(host) > 0) this.#judge(host)
    return url
  }

  /**
   * Where a URL that a camera names leads to. A host name must mean allowed addresses only.
   * @throws OnvifAddressError naming what is wrong, OnvifUnreachableError where the name means nothing
   */
  async destination(
    text: string,
    { zone, protocols }: DestinationOptions = {},
  ): Promise<Destination> {
    const url = this.read(text, protocols)
    const host = hostOf(url)
    const addresses = isIP(host) > 0 ? [host] : await this.#addressesOf(host)
    for (const address of addresses)
      this.#judge(address, address === host ? '' : `, which ${host} means,`)
    const [address] = addresses
    if (address === undefined) throw new OnvifUnreachableError(`${host} means no address`)
    return {
      url,
      address: zone !== undefined && isLinkLocal(address) ? `${address}%${zone}` : address,
    }
  }

  #judge(address: string, means = ''): void {
    if (this.allows(address)) return
    const reason = this.#own.allows(address)
      ? 'is an address of this machine, which is not named in allowedNetworks'
      : 'is not in the networks that may be spoken to'
    throw new OnvifAddressError(`${address}${means} ${reason}`)
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
    throw new OnvifAddressError(`${shown(text)} is not the URL of a service`)
  if (!protocols.includes(url.protocol)) {
    throw new OnvifAddressError(
      `${shown(text)} is none of ${protocols.map((one) => `${one}//`).join(', ')}`,
    )
  }
  // Not shown: it may hold a password.
  if (url.username !== '' || url.password !== '')
    throw new OnvifAddressError(
      `the URL of ${url.host} has a user name in it, which that of a camera never has`,
    )
  return url
}

/** Without what may be a user name and a password, also where it is not a URL because of these. */
function shown(text: string): string {
  const safe = text.replace(/^([a-z][a-z\d+.-]*:\/*)?.*@/is, '$1…@')
  return JSON.stringify(safe.length > 100 ? `${safe.slice(0, 100)}…` : safe)
}
