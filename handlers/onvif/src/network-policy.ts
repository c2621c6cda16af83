import { promises as dns } from 'node:dns'
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'
import { messageOf } from '@akrijs/sdk'
import { CameraUnreachableError, ForbiddenAddressError } from './device/errors.js'

/** A range of addresses, such as `192.168.1.0/24` or `fd00::/8`. */
export interface Network {
  readonly address: string
  readonly prefix: number
  readonly family: 'ipv4' | 'ipv6'
}

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

/**
 * What nobody means by naming a wider network: this machine, the metadata of clouds, and addresses of no single machine. To be
 * allowed, they or a part of them must be named.
 */
const SPECIAL = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.169.254', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::', '::1', 'ff00::/8', 'fd00:ec2::254'],
].map(readKnown)

/** Which addresses may be spoken to. Cameras name addresses themselves, and anybody on the network can say to be a camera. */
export class NetworkPolicy {
  readonly #allowed = new BlockList()
  /** Of each special network, what of it is allowed. */
  readonly #special = SPECIAL.map((network) => ({ range: listOf(network), allowed: new BlockList() }))
  readonly #resolve: Resolve

  /** @param options.resolve how host names become addresses. @default as the system does */
  constructor(networks: readonly Network[], { resolve = resolveBySystem }: { readonly resolve?: Resolve } = {}) {
    this.#resolve = resolve
    for (const network of networks) {
      const { address, prefix, family } = network
      this.#allowed.addSubnet(address, prefix, family)
      for (const [index, special] of this.#special.entries()) {
        const outer = SPECIAL[index]
        const within = outer !== undefined && prefix >= outer.prefix && special.range.check(address, family)
        if (within) special.allowed.addSubnet(address, prefix, family)
      }
    }
  }

  /** Whether this address, with or without a zone, may be spoken to. */
  allows(address: string): boolean {
    const plain = withoutMapping(address)
    const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
    if (isIP(plain) === 0 || !this.#allowed.check(plain, family)) return false
    return this.#special.every(({ range, allowed }) => !range.check(plain, family) || allowed.check(plain, family))
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

/** Reads a network, or an address as a network of one; undefined where it is neither. */
export function readNetwork(text: string): Network | undefined {
  const [address = '', length, ...others] = text.trim().split('/')
  const family = isIPv4(address) ? 'ipv4' : isIPv6(address) && !address.includes('%') ? 'ipv6' : undefined
  if (family === undefined || others.length > 0) return undefined
  const longest = family === 'ipv4' ? 32 : 128
  if (length === undefined) return { address, prefix: longest, family }
  const prefix = Number(length)
  return /^\d{1,3}$/.test(length) && prefix <= longest ? { address, prefix, family } : undefined
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

/** An IPv4 address that is written as an IPv6 one is what it stands for. Zones are left out. */
function withoutMapping(address: string): string {
  const plain = address.replace(/%.*$/, '')
  if (!isIPv6(plain)) return plain
  const canonical = new URL(`http://[${plain}]/`).hostname.slice(1, -1)
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical)
  if (mapped === null) return canonical
  const value = (Number.parseInt(mapped[1] ?? '', 16) << 16) | Number.parseInt(mapped[2] ?? '', 16)
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff).join('.')
}

function readKnown(text: string): Network {
  const network = readNetwork(text)
  if (network === undefined) throw new TypeError(`${text} is not a network`)
  return network
}

function listOf({ address, prefix, family }: Network): BlockList {
  const list = new BlockList()
  list.addSubnet(address, prefix, family)
  return list
}
