import { type Datagram, UdpSocket } from '@akrijs/sdk/network'
import type { LocalInterface } from './networks.js'

export type Family = 'IPv4' | 'IPv6'

export const MDNS_PORT = 5353
const GROUPS = { IPv4: '224.0.0.251', IPv6: 'ff02::fb' } as const

interface MulticastSocketListener {
  onDatagram(datagram: Datagram): void
  /** Called once if the socket fails. The socket is closed then: open a new socket. */
  onBroken(error: Error): void
}

/** A socket on the port of multicast DNS. Other programs of the machine share the port. */
export class MulticastSocket {
  readonly #family: Family
  readonly #socket: UdpSocket

  private constructor(family: Family, socket: UdpSocket) {
    this.#family = family
    this.#socket = socket
  }

  /** @throws the system's error, such as EADDRINUSE if another program does not share the port */
  static async open(family: Family, listener: MulticastSocketListener): Promise<MulticastSocket> {
    const socket = await UdpSocket.open({
      family,
      address: family === 'IPv6' ? '::' : '0.0.0.0',
      port: MDNS_PORT,
      shared: true,
      // RFC 6762, section 11.
      multicastTtl: 255,
      onDatagram: (datagram) => listener.onDatagram(datagram),
      onBroken: (error) => listener.onBroken(error),
    })
    return new MulticastSocket(family, socket)
  }

  /**
   * Joins the group on an interface. An interface that was removed and created again needs a new
   * membership.
   * @returns false if the socket was already a member
   * @throws the system's error if the interface is gone, or the socket has too many memberships
   */
  join(on: LocalInterface): boolean {
    return this.#socket.join(GROUPS[this.#family], this.#via(on))
  }

  leave(from: LocalInterface): void {
    this.#socket.leave(GROUPS[this.#family], this.#via(from))
  }

  /** Sends on an interface. Wait for each message: the socket has one interface at a time. */
  send(message: Buffer, on: LocalInterface): Promise<void> {
    const group = this.#family === 'IPv6' ? `${GROUPS.IPv6}%${on.name}` : GROUPS.IPv4
    return this.#socket.send(message, MDNS_PORT, group, this.#via(on))
  }

  close(): void {
    this.#socket.close()
  }

  #via({ name, ipv4 }: LocalInterface): string {
    return this.#family === 'IPv6' ? `::%${name}` : (ipv4 ?? '')
  }
}
