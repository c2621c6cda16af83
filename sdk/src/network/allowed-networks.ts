import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'
import { InternalError } from '@akrijs/runtime'
import { plainAddress } from './addresses.js'

/** The prefix of a network that has one address. */
const LONGEST = { ipv4: 32, ipv6: 128 } as const

/** A range of addresses, such as `192.168.1.0/24` or `fd00::/8`. */
export interface Network {
  /** An address of the network, such as `192.168.1.0`. */
  readonly address: string
  /** The number of leading bits that all its addresses have in common. */
  readonly prefix: number
  /** The version of IP. */
  readonly family: 'ipv4' | 'ipv6'
}

/**
 * Addresses that a wider network does not include: this machine, the metadata service of clouds,
 * and addresses that belong to no single machine. An operator allows these addresses, or a part of
 * them, only by their own networks.
 */
const SPECIAL = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.169.254', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::', '::1', 'ff00::/8', 'fd00:ec2::254'],
].map((text) => {
  const network = readNetwork(text)
  if (network === undefined) throw new InternalError(`${text} is not a network`)
  return { network, range: listOf(network) }
})

/** Options of {@link AllowedNetworks}. */
export interface AllowedNetworksOptions {
  /**
   * The addresses of this machine, from `machineAddresses()`. A wider network does not include
   * these addresses either; an operator allows each of them by its own address. @default none
   */
  readonly ownAddresses?: Iterable<string> | undefined
}

/**
 * The addresses that a handler may call. Devices announce their own addresses, and any host on a
 * network can send a forged announcement: a forged address must not make an agent call into its
 * cluster.
 *
 * @example
 * const networks = new AllowedNetworks(readNetworks(details.networks), {
 *   ownAddresses: machineAddresses(),
 * })
 * const address = addressOfUrl(details.url)
 * if (address === undefined || !networks.allows(address)) remark(`${details.url} is not allowed`)
 */
export class AllowedNetworks {
  readonly #allowed = new BlockList()
  /** The allowed part of each special network. */
  readonly #special = SPECIAL.map((special) => ({ ...special, allowed: new BlockList() }))
  /** The addresses of this machine, without the special addresses. */
  readonly #machine = new Set<string>()
  /** The networks that have one address. */
  readonly #single = new Set<string>()

  /**
   * @param networks the networks that an operator allows
   * @param options the addresses of this machine
   */
  constructor(networks: Iterable<Network>, { ownAddresses = [] }: AllowedNetworksOptions = {}) {
    for (const address of ownAddresses) {
      const plain = plainAddress(address)
      if (!SPECIAL.some(({ range }) => range.check(plain, familyOf(plain))))
        this.#machine.add(plain)
    }
    for (const { address, prefix, family } of networks) {
      this.#allowed.addSubnet(address, prefix, family)
      if (prefix === LONGEST[family]) this.#single.add(plainAddress(address))
      for (const { network, range, allowed } of this.#special)
        if (prefix >= network.prefix && range.check(address, family))
          allowed.addSubnet(address, prefix, family)
    }
  }

  /**
   * Whether a handler may call an address, with or without a zone. False for a text that is no
   * address.
   */
  allows(address: string): boolean {
    const plain = plainAddress(address)
    const family = familyOf(plain)
    if (isIP(plain) === 0 || !this.#allowed.check(plain, family)) return false
    if (this.#machine.has(plain) && !this.#single.has(plain)) return false
    return this.#special.every(
      ({ range, allowed }) => !range.check(plain, family) || allowed.check(plain, family),
    )
  }
}

/**
 * Reads a network, or an address as a network that has one address.
 * @returns undefined for any other text
 *
 * @example
 * readNetwork('192.168.1.0/24') // { address: '192.168.1.0', prefix: 24, family: 'ipv4' }
 * readNetwork('camera.local') // undefined
 */
export function readNetwork(text: string): Network | undefined {
  const [address = '', length, ...others] = text.trim().split('/')
  const isAddress = isIPv4(address) || (isIPv6(address) && !address.includes('%'))
  if (!isAddress || others.length > 0) return undefined
  const family = familyOf(address)
  const longest = LONGEST[family]
  if (length === undefined) return { address, prefix: longest, family }
  const prefix = Number(length)
  return /^\d{1,3}$/.test(length) && prefix <= longest ? { address, prefix, family } : undefined
}

/**
 * Reads networks and addresses as {@link readNetwork} does, and leaves out any other text.
 *
 * @example
 * const allowed = new AllowedNetworks(readNetworks(['10.0.0.0/8', 'fd00::/8']))
 */
export function readNetworks(texts: Iterable<string>): Network[] {
  return Array.from(texts).flatMap((text) => readNetwork(text) ?? [])
}

function familyOf(address: string): Network['family'] {
  return isIPv4(address) ? 'ipv4' : 'ipv6'
}

function listOf({ address, prefix, family }: Network): BlockList {
  const list = new BlockList()
  list.addSubnet(address, prefix, family)
  return list
}
