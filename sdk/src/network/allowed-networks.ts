import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

/** The prefix of a network of one address. */
const LONGEST = { ipv4: 32, ipv6: 128 } as const

/** A range of addresses, such as `192.168.1.0/24` or `fd00::/8`. */
export interface Network {
  readonly address: string
  readonly prefix: number
  readonly family: 'ipv4' | 'ipv6'
}

/**
 * What nobody means by naming a wider network: this machine, the metadata of clouds, and addresses of no single machine. To be
 * allowed, they or a part of them must be named.
 */
const SPECIAL = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.169.254', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::', '::1', 'ff00::/8', 'fd00:ec2::254'],
].map(readKnown)
const SPECIAL_RANGES = SPECIAL.map(listOf)

export interface AllowedNetworksOptions {
  /**
   * Addresses that nobody means by naming a wider network either: those of this machine, as `machineAddresses()` has them. To be
   * allowed, each must be named itself. @default none
   */
  readonly ownAddresses?: Iterable<string> | undefined
}

/**
 * Which addresses a handler may call. Devices name addresses themselves, and anybody on a network can say to be a device: what
 * is forged must not make an agent call into its cluster.
 */
export class AllowedNetworks {
  readonly #allowed = new BlockList()
  /** Of each special network, what of it is allowed. */
  readonly #special = SPECIAL.map((network) => ({
    network,
    range: listOf(network),
    allowed: new BlockList(),
  }))

  readonly #own = new Set<string>()
  /** Addresses that are named themselves. */
  readonly #named = new Set<string>()

  constructor(networks: Iterable<Network>, { ownAddresses = [] }: AllowedNetworksOptions = {}) {
    for (const address of ownAddresses)
      if (!isSpecial(address)) this.#own.add(withoutMapping(address))
    for (const { address, prefix, family } of networks) {
      this.#allowed.addSubnet(address, prefix, family)
      if (prefix === LONGEST[family]) this.#named.add(withoutMapping(address))
      for (const special of this.#special) {
        const within = prefix >= special.network.prefix && special.range.check(address, family)
        if (within) special.allowed.addSubnet(address, prefix, family)
      }
    }
  }

  /** Whether this address, with or without a zone, may be called. What is no address may not. */
  allows(address: string): boolean {
    const plain = withoutMapping(address)
    const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
    if (isIP(plain) === 0 || !this.#allowed.check(plain, family)) return false
    if (this.#own.has(plain) && !this.#named.has(plain)) return false
    return this.#special.every(
      ({ range, allowed }) => !range.check(plain, family) || allowed.check(plain, family),
    )
  }
}

/** Reads a network, or an address as a network of one; undefined where it is neither. */
export function readNetwork(text: string): Network | undefined {
  const [address = '', length, ...others] = text.trim().split('/')
  const family = isIPv4(address)
    ? 'ipv4'
    : isIPv6(address) && !address.includes('%')
      ? 'ipv6'
      : undefined
  if (family === undefined || others.length > 0) return undefined
  const longest = LONGEST[family]
  if (length === undefined) return { address, prefix: longest, family }
  const prefix = Number(length)
  return /^\d{1,3}$/.test(length) && prefix <= longest ? { address, prefix, family } : undefined
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

/** Whether it belongs to what must be named anyhow. */
function isSpecial(address: string): boolean {
  const plain = withoutMapping(address)
  return SPECIAL_RANGES.some((range) => range.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6'))
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
