import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { isContainerNetwork } from './machine-interfaces.js'

/** A network interface, and what keeps it from sending multicast. */
export interface MachineLink {
  /** Whether it leads to this machine itself. */
  readonly isLoopback: boolean
  /** Whether it is switched off. */
  readonly isDown: boolean
  /** Whether the cable, or the other end of a link, is missing. */
  readonly lacksCarrier: boolean
  /** Whether its kind has no multicast, such as some tunnels. */
  readonly lacksMulticast: boolean
  /** Whether it has an address of IPv4 or IPv6. */
  readonly hasAddress: boolean
}

/** All network interfaces of this machine, also those that are down, by name. */
export interface MachineLinks {
  /** The interfaces by name. */
  readonly links: ReadonlyMap<string, MachineLink>
  /** Whether this process has another network than the machine, such as that of a Pod. */
  readonly isSeparate: boolean
}

/** The interfaces of the network of this process. */
const DEVICES = '/proc/net/dev'
/** The interfaces of the network in which sysfs was mounted, which may be another network. */
const CLASS = '/sys/class/net'
/** Flags of linux/if.h. */
const IFF_UP = 0x1
const IFF_LOOPBACK = 0x8
const IFF_MULTICAST = 0x1000
const NO_CARRIER: ReadonlySet<string> = new Set(['down', 'lowerlayerdown', 'notpresent'])
/** Of a node with more interfaces, a text names none of the others. */
const MAX_LINKS = 256
/** The kernel shows the second in the network namespace of the machine only. */
const NETWORK_SETTINGS = '/proc/sys/net/core'
const INITIAL_NETWORK_SETTING = `${NETWORK_SETTINGS}/netdev_max_backlog`

export function readMachineLinks(): MachineLinks {
  const addresses = networkInterfaces()
  const present = presentNames()
  const described = sysfsNames()
  const isSysfsOurs =
    present.every((name) => described.has(name)) && described.size === present.length
  const names = new Set([...Object.keys(addresses), ...present].slice(0, MAX_LINKS))
  const links = [...names].map((name): [string, MachineLink] => {
    const read = (attribute: string) => (isSysfsOurs ? attributeOf(name, attribute) : undefined)
    return [name, linkOf(name, addresses[name] ?? [], read)]
  })
  return {
    links: new Map(links),
    isSeparate: existsSync(NETWORK_SETTINGS) && !existsSync(INITIAL_NETWORK_SETTING),
  }
}

/**
 * Why no interface can be used, by interface, the most likely first. An interface that is usable
 * and has addresses lacks one that the caller can use.
 *
 * @param only the names of the interfaces that an operator chose
 * @param family of the addresses that the caller can use @default both
 */
export function missingInterface(
  { links }: MachineLinks,
  only: readonly string[] | undefined,
  family?: 'IPv4',
): readonly string[] {
  if (only !== undefined) return only.map((name) => `${name} ${lackOf(links.get(name), family)}`)
  const usual: string[] = []
  const unused: string[] = []
  for (const [name, link] of links)
    if (isContainerNetwork(name)) unused.push(`${name} is of a container network`)
    else if (link.isLoopback) unused.push(`${name} is the loopback interface`)
    else usual.push(`${name} ${lackOf(link, family)}`)
  return links.size > 0 ? [...usual, ...unused] : ['this machine has none']
}

function lackOf(link: MachineLink | undefined, family: 'IPv4' | undefined): string {
  if (link === undefined) return 'does not exist'
  if (link.isDown) return 'is down'
  if (link.lacksCarrier) return 'has no link'
  if (!link.hasAddress) return 'has no address'
  return family === undefined ? 'has no IPv4 or link-local address' : `has no ${family} address`
}

function linkOf(
  name: string,
  addresses: readonly { readonly internal: boolean }[],
  read: (attribute: string) => string | undefined,
): MachineLink {
  const flags = Number(read('flags') ?? Number.NaN)
  const lacks = (flag: number) => !Number.isNaN(flags) && (flags & flag) === 0
  return {
    isLoopback:
      name === 'lo' || addresses.some(({ internal }) => internal) || (flags & IFF_LOOPBACK) !== 0,
    isDown: lacks(IFF_UP),
    lacksCarrier: NO_CARRIER.has(read('operstate') ?? ''),
    lacksMulticast: lacks(IFF_MULTICAST),
    hasAddress: addresses.length > 0,
  }
}

function presentNames(): readonly string[] {
  try {
    const lines = readFileSync(DEVICES, 'latin1').split('\n').slice(2)
    return lines.flatMap((line) => /^\s*(.+):/.exec(line)?.[1] ?? [])
  } catch {
    // Another system than Linux.
    return []
  }
}

function sysfsNames(): ReadonlySet<string> {
  try {
    // The driver for bonds has a file there.
    return new Set(readdirSync(CLASS, 'latin1').filter((name) => name !== 'bonding_masters'))
  } catch {
    // A container without sysfs.
    return new Set()
  }
}

function attributeOf(name: string, attribute: string): string | undefined {
  try {
    return readFileSync(`${CLASS}/${name}/${attribute}`, 'latin1').trim()
  } catch {
    return undefined
  }
}
