import { UdpSocket, type UdpSocketOptions } from '@akrijs/sdk/network'
import type { LocalInterface } from './networks.js'

export type Family = 'IPv4' | 'IPv6'

export const MDNS_PORT = 5353
export const MDNS_GROUPS = { IPv4: '224.0.0.251', IPv6: 'ff02::fb' } as const

/**
 * Opens a socket on the port of multicast DNS, which other programs of the machine share.
 * @throws the system's error, such as EADDRINUSE if another program does not share the port
 */
export function openMulticastSocket(
  family: Family,
  callbacks: Pick<UdpSocketOptions, 'onDatagram' | 'onBroken'>,
): Promise<UdpSocket> {
  return UdpSocket.open({
    ...callbacks,
    family,
    address: family === 'IPv6' ? '::' : '0.0.0.0',
    port: MDNS_PORT,
    shared: true,
    // RFC 6762, section 11.
    multicastTtl: 255,
  })
}

/** How a socket names an interface; undefined if the interface has no address of the family. */
export function socketInterface(
  family: Family,
  { name, ipv4, hasIpv6 }: LocalInterface,
): string | undefined {
  if (family === 'IPv4') return ipv4
  return hasIpv6 ? `::%${name}` : undefined
}
