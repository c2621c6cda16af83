import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import type { LocalInterface } from './networks.js'

export type Family = 'IPv4' | 'IPv6'

export const MDNS_PORT = 5353
const GROUPS = { IPv4: '224.0.0.251', IPv6: 'ff02::fb' } as const

export interface MulticastSocketListener {
  onMessage(message: Buffer, sender: RemoteInfo): void
  /** The socket is broken and closed; open another one. */
  onBroken(error: Error): void
}

/** A socket on the port of multicast DNS, which it shares with other programs of the machine. */
export class MulticastSocket {
  readonly #family: Family
  readonly #socket: Socket
  #closed = false

  private constructor(family: Family, socket: Socket) {
    this.#family = family
    this.#socket = socket
  }

  /** @throws the system's error where the port cannot be had: another program does not share it */
  static async open(family: Family, listener: MulticastSocketListener): Promise<MulticastSocket> {
    const isIpv6 = family === 'IPv6'
    const socket = createSocket({
      type: isIpv6 ? 'udp6' : 'udp4',
      reuseAddr: true,
      ipv6Only: isIpv6,
    })
    const opened = new MulticastSocket(family, socket)
    try {
      socket.bind(MDNS_PORT, isIpv6 ? '::' : '0.0.0.0')
      await once(socket, 'listening')
      // RFC 6762, section 11.
      socket.setMulticastTTL(255)
      socket.setMulticastLoopback(true)
    } catch (error) {
      opened.close()
      throw error
    }
    socket.on('message', (message, sender) => listener.onMessage(message, sender))
    socket.on('error', (error) => {
      opened.close()
      listener.onBroken(error)
    })
    return opened
  }

  /**
   * Listens on an interface, if it does not yet: one that has gone and come back is another one, whatever its name.
   * @returns whether it did not listen there before
   * @throws the system's error where the interface is gone, or the socket listens on as many as it may
   */
  join(on: LocalInterface): boolean {
    try {
      this.#socket.addMembership(GROUPS[this.#family], this.#interface(on))
      return true
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
      throw error
    }
  }

  leave(from: LocalInterface): void {
    try {
      this.#socket.dropMembership(GROUPS[this.#family], this.#interface(from))
    } catch {
      // The interface is gone, and the membership with it.
    }
  }

  /** Sends on one interface. One message at a time: the interface is the socket's. */
  send(message: Buffer, on: LocalInterface): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return resolve()
      this.#socket.setMulticastInterface(this.#interface(on))
      const group = this.#family === 'IPv6' ? `${GROUPS.IPv6}%${on.name}` : GROUPS.IPv4
      this.#socket.send(message, MDNS_PORT, group, (error) => (error ? reject(error) : resolve()))
    })
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket.close()
  }

  #interface({ name, ipv4 }: LocalInterface): string {
    return this.#family === 'IPv6' ? `::%${name}` : (ipv4 ?? '')
  }
}
