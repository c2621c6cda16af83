// The networks of this machine, and the addresses in these networks that are believed.
import {
  AllowedNetworks,
  type InterfaceAddresses,
  machineInterfaces,
  readNetworks,
} from '@akrijs/sdk/network'

/** An interface on which multicast is sent. */
export interface LocalInterface {
  readonly name: string
  /** The first IPv4 address, if the interface has any. */
  readonly ipv4?: string
  readonly hasIpv6: boolean
  /** The networks of the interface's addresses. */
  readonly networks: AllowedNetworks
}

/** The number of interfaces that are used. */
const MAX_INTERFACES = 128

/**
 * The interfaces of this machine, those with IPv4 first.
 * @param only names @default all but the loopback interface and the interfaces of container
 * networks
 */
export function localInterfaces(
  only?: readonly string[],
  table?: InterfaceAddresses,
): LocalInterface[] {
  const interfaces = machineInterfaces({ only }, table).map(
    ({ name, addresses }): LocalInterface => {
      const ipv4 = addresses.find(({ family }) => family === 'IPv4')?.address
      const networks = networkList(addresses.flatMap(({ cidr }) => cidr ?? []))
      const hasIpv6 = addresses.some(({ family }) => family === 'IPv6')
      return { name, hasIpv6, networks, ...(ipv4 === undefined ? {} : { ipv4 }) }
    },
  )
  return interfaces
    .sort((a, b) => Number(a.ipv4 === undefined) - Number(b.ipv4 === undefined))
    .slice(0, MAX_INTERFACES)
}

/**
 * The interface on which a message arrived, from the sender's address. Undefined for a sender
 * outside of this machine's networks: RFC 6762, section 11, ignores such messages.
 */
export function interfaceOf(
  sender: string,
  interfaces: readonly LocalInterface[],
): LocalInterface | undefined {
  const [address = '', zone] = sender.split('%')
  if (zone !== undefined) return interfaces.find(({ name }) => name === zone)
  return interfaces.find(({ networks }) => networks.allows(address))
}

/** @param networks such as `192.0.2.0/24` or `2001:db8::/32`; any other text is left out */
export function networkList(networks: readonly string[]): AllowedNetworks {
  return new AllowedNetworks(readNetworks(networks))
}
