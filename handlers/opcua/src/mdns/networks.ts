// The networks that this machine is on, and what of them is believed.
import {
  AllowedNetworks,
  type InterfaceAddresses,
  machineInterfaces,
  readNetwork,
} from '@akrijs/sdk/network'

/** An interface that multicast can be sent on. */
export interface LocalInterface {
  readonly name: string
  /** Absent where it has none. */
  readonly ipv4?: string
  readonly hasIpv6: boolean
  /** Its own networks. */
  readonly networks: AllowedNetworks
}

/** More interfaces than that are not listened on. */
const MAX_INTERFACES = 128

/** Interfaces by name. @param only those with these names @default all but the loopback interface and those of container networks */
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
  // Those with IPv4 first, should there be too many.
  return interfaces
    .sort((a, b) => Number(a.ipv4 === undefined) - Number(b.ipv4 === undefined))
    .slice(0, MAX_INTERFACES)
}

/**
 * The interface that a message came in on, by its sender. Undefined for senders of no network of this machine, which
 * RFC 6762, section 11, tells to ignore.
 */
export function interfaceOf(
  sender: string,
  interfaces: readonly LocalInterface[],
): LocalInterface | undefined {
  const [address = '', zone] = sender.split('%')
  if (zone !== undefined) return interfaces.find(({ name }) => name === zone)
  return interfaces.find(({ networks }) => networks.allows(address))
}

/** @param networks `192.0.2.0/24`, `2001:db8::/32`; what is none is left out */
export function networkList(networks: readonly string[]): AllowedNetworks {
  return new AllowedNetworks(networks.flatMap((network) => readNetwork(network) ?? []))
}

/** fe80::/10 */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address)
}
