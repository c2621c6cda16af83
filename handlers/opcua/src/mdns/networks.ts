// The networks that this machine is on, and what of them is believed.
import { BlockList, isIPv6 } from 'node:net'
import os from 'node:os'

/** An interface that multicast can be sent on. */
export interface LocalInterface {
  readonly name: string
  /** Absent where it has none. */
  readonly ipv4?: string
  readonly hasIpv6: boolean
  /** Its own networks. */
  readonly networks: BlockList
}

export type InterfaceTable = ReturnType<typeof os.networkInterfaces>

/** More interfaces than that are not listened on: a node has one for each of its Pods. */
const MAX_INTERFACES = 128

/** Interfaces of a machine by name, without the loopback. @param only those with these names, where it is given */
export function localInterfaces(only?: readonly string[], table: InterfaceTable = os.networkInterfaces()): LocalInterface[] {
  const interfaces: LocalInterface[] = []
  for (const [name, addresses = []] of Object.entries(table)) {
    const outside = addresses.filter(({ internal }) => !internal)
    if (outside.length === 0 || (only !== undefined && !only.includes(name))) continue
    const ipv4 = outside.find(({ family }) => family === 'IPv4')?.address
    const networks = new BlockList()
    for (const { cidr } of outside) if (cidr !== null) addNetwork(networks, cidr)
    const hasIpv6 = outside.some(({ family }) => family === 'IPv6')
    interfaces.push({ name, hasIpv6, networks, ...(ipv4 === undefined ? {} : { ipv4 }) })
  }
  // Those with IPv4 first: where there are too many, links of Pods are left out and not the machine's own.
  return interfaces.sort((a, b) => Number(a.ipv4 === undefined) - Number(b.ipv4 === undefined)).slice(0, MAX_INTERFACES)
}

/**
 * The interface that a message came in on, by its sender. Undefined for senders of no network of this machine, which
 * RFC 6762, section 11, tells to ignore.
 */
export function interfaceOf(sender: string, interfaces: readonly LocalInterface[]): LocalInterface | undefined {
  const [address = '', zone] = sender.split('%')
  if (zone !== undefined) return interfaces.find(({ name }) => name === zone)
  return interfaces.find(({ networks }) => contains(networks, address))
}

export function contains(networks: BlockList, address: string): boolean {
  return networks.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** @param networks `192.0.2.0/24`, `2001:db8::/32`, each checked to be one */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) addNetwork(list, network)
  return list
}

function addNetwork(list: BlockList, network: string): void {
  const [address = '', prefix] = network.split('/')
  list.addSubnet(address, Number(prefix), isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** fe80::/10 */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address)
}
