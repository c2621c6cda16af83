import { type Logger, messageOf } from '@akrijs/sdk'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'
import type { ProbingInterface } from './network-interfaces.js'
import { type Datagram, UdpSocket } from './udp-socket.js'

/**
 * Hears what devices tell everybody: Hello and Bye. Its sockets are bound to the groups, not to all addresses: so they take
 * nothing away from another program of this machine that is a device itself.
 */
export class GroupListener {
  readonly #log: Logger
  readonly #onDatagram: (datagram: Datagram) => void
  /** By address and port that they are bound to. */
  readonly #sockets = new Map<string, { readonly socket: UdpSocket; readonly joined: Set<string> }>()
  /** What could not be listened to, told once. */
  readonly #deaf = new Set<string>()

  constructor({ log, onDatagram }: { readonly log: Logger; readonly onDatagram: (datagram: Datagram) => void }) {
    this.#log = log
    this.#onDatagram = onDatagram
  }

  /** Listens on these interfaces, and no more on others. */
  async follow(interfaces: readonly ProbingInterface[]): Promise<void> {
    const wanted = new Map<string, ProbingInterface[]>()
    for (const one of interfaces) wanted.set(groupAddress(one), [...(wanted.get(groupAddress(one)) ?? []), one])
    for (const [address, { socket }] of this.#sockets) {
      if (wanted.has(address)) continue
      socket.close()
      this.#sockets.delete(address)
    }
    for (const [address, group] of wanted) await this.#listen(address, group)
  }

  close(): void {
    for (const { socket } of this.#sockets.values()) socket.close()
    this.#sockets.clear()
  }

  async #listen(address: string, interfaces: readonly ProbingInterface[]): Promise<void> {
    const [{ family } = { family: 'IPv4' as const }] = interfaces
    try {
      const entry = this.#sockets.get(address) ?? { socket: await this.#open(family, address), joined: new Set<string>() }
      this.#sockets.set(address, entry)
      for (const one of interfaces) {
        if (entry.joined.has(one.key)) continue
        entry.socket.join(DISCOVERY_GROUP[family], family === 'IPv4' ? one.address : `::%${one.name}`)
        entry.joined.add(one.key)
      }
      const present = new Set(interfaces.map(({ key }) => key))
      for (const key of entry.joined) if (!present.has(key)) entry.joined.delete(key)
      this.#deaf.delete(address)
    } catch (error) {
      if (this.#deaf.has(address)) return
      this.#deaf.add(address)
      this.#log.warn(
        { address, port: DISCOVERY_PORT, reason: messageOf(error) },
        'Hello and Bye of cameras are not heard here; they are found by probing alone',
      )
    }
  }

  #open(family: 'IPv4' | 'IPv6', address: string): Promise<UdpSocket> {
    return UdpSocket.open({
      family,
      address,
      port: DISCOVERY_PORT,
      shared: true,
      onDatagram: this.#onDatagram,
      onBroken: () => this.#sockets.delete(address),
    })
  }
}

/** One socket hears a group on all interfaces; that of IPv6 is another group on each of them. */
function groupAddress({ family, name }: ProbingInterface): string {
  return family === 'IPv4' ? DISCOVERY_GROUP.IPv4 : `${DISCOVERY_GROUP.IPv6}%${name}`
}
