import { promises as dns } from 'node:dns'
import { isIP, isIPv6 } from 'node:net'
import { AllowedNetworks, messageOf, type Network } from '@akrijs/sdk'
import { CameraUnreachableError, ForbiddenAddressError } from './device/errors.js'

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

/** All addresses of a host name. */
export type Resolve = (host: string) => Promise<readonly string[]>

/** Which addresses may be spoken to. Cameras name addresses themselves, and anybody on the network can say to be a camera. */
export class NetworkPolicy {
  readonly #allowed: AllowedNetworks
  readonly #resolve: Resolve

  /** @param options.resolve how host names become addresses. @default as the system does */
  constructor(networks: readonly Network[], { resolve = resolveBySystem }: { readonly resolve?: Resolve } = {}) {
    this.#resolve = resolve
    this.#allowed = new AllowedNetworks(networks)
  }

  /** Whether this address, with or without a zone, may be spoken to. */
  allows(address: string): boolean {
    return this.#allowed.allows(address)
  }

  /**
   * Where a URL that a camera names leads to. A host name must mean allowed addresses only.
   * @throws ForbiddenAddressError naming what is wrong, CameraUnreachableError where the name means nothing
   */
  async destination(text: string, { zone, protocols = ['http:', 'https:'] }: DestinationOptions = {}): Promise<Destination> {
    const url = readUrl(text, protocols)
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
    const addresses = isIP(host) > 0 ? [host] : await this.#addressesOf(host)
    for (const address of addresses) {
      if (this.allows(address)) continue
      const means = address === host ? '' : `, which ${host} means,`
      throw new ForbiddenAddressError(`${address}${means} is not in the networks that may be spoken to`)
    }
    const [address] = addresses
    if (address === undefined) throw new CameraUnreachableError(`${host} means no address`)
    return { url, address: zone !== undefined && isLinkLocal(address) ? `${address}%${zone}` : address }
  }

  async #addressesOf(host: string): Promise<readonly string[]> {
    try {
      return await this.#resolve(host)
    } catch (error) {
      throw new CameraUnreachableError(`${host} means no address: ${messageOf(error)}`, { cause: error })
    }
  }
}

function readUrl(text: string, protocols: readonly string[]): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.hostname === '') throw new ForbiddenAddressError(`${shown(text)} is not the URL of a service`)
  if (!protocols.includes(url.protocol)) {
    throw new ForbiddenAddressError(`${shown(text)} is none of ${protocols.map((one) => `${one}//`).join(', ')}`)
  }
  // Not shown: it may hold a password.
  if (url.username !== '' || url.password !== '')
    throw new ForbiddenAddressError(`the URL of ${url.host} has a user name in it, which that of a camera never has`)
  return url
}

function shown(text: string): string {
  const safe = text.replace(/\/\/[^/]*@/, '//…@')
  return JSON.stringify(safe.length > 100 ? `${safe.slice(0, 100)}…` : safe)
}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}

function isLinkLocal(address: string): boolean {
  return isIPv6(address) && /^fe[89ab]/i.test(address)
}
