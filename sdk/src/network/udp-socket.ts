import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'

/** A datagram, and the address and port of its sender. */
export interface Datagram {
  /** The content. */
  readonly bytes: Buffer
  /** With the zone of a link-local IPv6 address: `fe80::1%eth0`. */
  readonly address: string
  /** The port of the sender. */
  readonly port: number
}

/** Options of `UdpSocket.open`. */
export interface UdpSocketOptions {
  /** The version of IP. */
  readonly family: 'IPv4' | 'IPv6'
  /** The address to bind to. */
  readonly address: string
  /** @default 0: any free port */
  readonly port?: number
  /**
   * The interface on which multicast is sent: one of its IPv4 addresses, or `::%eth0`.
   * @default the system's choice
   */
  readonly multicastInterface?: string
  /**
   * The number of networks that a multicast datagram passes.
   * @default 1: only the interface's own network
   */
  readonly multicastTtl?: number
  /** Whether other sockets may use the same port. @default false */
  readonly shared?: boolean
  /** Takes each datagram. */
  readonly onDatagram: (datagram: Datagram) => void
  /** Called once if the socket fails. The socket is closed then. */
  readonly onBroken: (error: Error) => void
}

/** Room for the answers of some hundred devices, in bytes. The system may allow less. */
const RECEIVE_BUFFER_BYTES = 1024 * 1024

/**
 * A UDP socket that reports a failure once, and that ignores calls after it was closed.
 *
 * @example
 * const socket = await UdpSocket.open({
 *   family: 'IPv4',
 *   address: '0.0.0.0',
 *   onDatagram: ({ bytes, address }) => log.debug({ address, bytes: bytes.length }, 'an answer'),
 *   onBroken: (error) => log.warn({ err: error }, 'the socket failed'),
 * })
 * await socket.send(message, 1900, '239.255.255.250')
 */
export class UdpSocket {
  readonly #socket: Socket
  #closed = false

  private constructor(socket: Socket) {
    this.#socket = socket
  }

  /** @throws the system's error, such as EADDRINUSE or EADDRNOTAVAIL */
  static async open(options: UdpSocketOptions): Promise<UdpSocket> {
    const { family, address, port = 0, shared = false, onDatagram, onBroken } = options
    const { multicastInterface, multicastTtl = 1 } = options
    const socket = createSocket({
      type: family === 'IPv4' ? 'udp4' : 'udp6',
      reuseAddr: shared,
      ipv6Only: family === 'IPv6',
    })
    const opened = new UdpSocket(socket)
    try {
      socket.bind({ address, port, exclusive: true })
      await once(socket, 'listening')
      if (multicastInterface !== undefined) socket.setMulticastInterface(multicastInterface)
      socket.setMulticastTTL(multicastTtl)
    } catch (error) {
      opened.close()
      throw error
    }
    try {
      socket.setRecvBufferSize(RECEIVE_BUFFER_BYTES)
    } catch {
      // The default size is enough in most networks.
    }
    socket.on('message', (bytes, sender) =>
      onDatagram({ bytes, address: sender.address, port: sender.port }),
    )
    socket.on('error', (error) => {
      opened.close()
      onBroken(error)
    })
    return opened
  }

  /**
   * Joins a multicast group on an interface. The kernel drops the membership when the interface is
   * removed.
   * @param via an IPv4 address of the interface, or `::%eth0`
   * @returns false if the socket was already a member
   * @throws the system's error, such as ENODEV
   */
  join(group: string, via: string): boolean {
    try {
      this.#socket.addMembership(group, via)
      return true
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
      throw error
    }
  }

  /** Leaves a multicast group, if the interface still exists. */
  leave(group: string, via: string): void {
    try {
      this.#socket.dropMembership(group, via)
    } catch {
      // The interface was removed, and the membership with it.
    }
  }

  /**
   * Sends a datagram; does nothing after `close`.
   * @param via the interface for multicast, from this call on @default the last interface
   * @throws the system's error, such as ENETUNREACH
   */
  send(bytes: Uint8Array, port: number, address: string, via?: string): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return resolve()
      if (via !== undefined) this.#socket.setMulticastInterface(via)
      this.#socket.send(bytes, port, address, (error) =>
        error && !this.#closed ? reject(error) : resolve(),
      )
    })
  }

  /** Closes the socket; a second call does nothing. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket.close()
  }
}
