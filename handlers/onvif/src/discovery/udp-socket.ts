import dgram from 'node:dgram'
import { once } from 'node:events'

export interface Datagram {
  readonly bytes: Uint8Array
  /** With its zone where it is a link-local one of IPv6. */
  readonly address: string
  readonly port: number
}

export interface UdpSocketOptions {
  readonly family: 'IPv4' | 'IPv6'
  readonly address: string
  /** @default 0: any */
  readonly port?: number
  /** The address, or `::%eth0`, by which the interface for sending to groups is known. */
  readonly multicastInterface?: string
  /** Whether others may have the port too. @default false */
  readonly shared?: boolean
  readonly onDatagram: (datagram: Datagram) => void
  /** The socket is broken, and closed. */
  readonly onBroken: (error: Error) => void
}

/** A burst of answers of some hundred cameras; the system may allow less. */
const RECEIVE_BUFFER_BYTES = 1024 * 1024

/** A UDP socket whose errors are told once, and that does not throw after it was closed. */
export class UdpSocket {
  readonly #socket: dgram.Socket
  #closed = false

  private constructor(socket: dgram.Socket) {
    this.#socket = socket
  }

  /** @throws Error of the system, such as EADDRINUSE and EADDRNOTAVAIL */
  static async open(options: UdpSocketOptions): Promise<UdpSocket> {
    const {
      family,
      address,
      port = 0,
      multicastInterface,
      shared = false,
      onDatagram,
      onBroken,
    } = options
    const socket = dgram.createSocket({
      type: family === 'IPv4' ? 'udp4' : 'udp6',
      reuseAddr: shared,
      ipv6Only: family === 'IPv6',
    })
    const opened = new UdpSocket(socket)
    try {
      socket.bind({ address, port, exclusive: true })
      await once(socket, 'listening')
      if (multicastInterface !== undefined) {
        socket.setMulticastInterface(multicastInterface)
        // What is said to the group is for this network alone.
        socket.setMulticastTTL(1)
      }
    } catch (error) {
      opened.close()
      throw error
    }
    try {
      socket.setRecvBufferSize(RECEIVE_BUFFER_BYTES)
    } catch {
      // The default will do.
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
   * Listens to a group on an interface, if it does not yet.
   * @param via an address of the interface, or `::%eth0`
   * @throws Error of the system, such as ENODEV
   */
  join(group: string, via: string): void {
    try {
      this.#socket.addMembership(group, via)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error
    }
  }

  /** @throws Error of the system, such as ENETUNREACH. A socket that was closed sends nothing. */
  send(bytes: Uint8Array, port: number, address: string): Promise<void> {
    if (this.#closed) return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#socket.send(bytes, port, address, (error) =>
        error && !this.#closed ? reject(error) : resolve(),
      )
    })
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket.close()
  }
}
