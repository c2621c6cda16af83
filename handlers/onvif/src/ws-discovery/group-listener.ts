import type { Logger } from '@akrijs/sdk'
import { type Datagram, ProblemLog, UdpSocket } from '@akrijs/sdk/network'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'
import type { ProbingInterface } from './network-interfaces.js'

interface GroupSocket {
  readonly socket: UdpSocket
  /**
   * Keys of the interfaces that the socket listens on. A membership of the kernel counts for all
   * addresses of an interface.
   */
  readonly joined: Set<string>
}

/**
 * Listens to Hello and Bye, which devices send to a multicast group. The sockets are bound to the
 * groups, not to all addresses: a program of this machine that is a device itself still gets its
 * datagrams.
 */
export class GroupListener {
  readonly #problems: ProblemLog
  readonly #onDatagram: (datagram: Datagram) => void
  /** By the address that they are bound to. */
  readonly #sockets = new Map<string, GroupSocket>()

  constructor({
    log,
    onDatagram,
  }: { readonly log: Logger; readonly onDatagram: (datagram: Datagram) => void }) {
    this.#problems = new ProblemLog(log)
    this.#onDatagram = onDatagram
  }

  /** Listens on these interfaces, and on no others. */
  async follow(interfaces: readonly ProbingInterface[]): Promise<void> {
    const groups = new Map<string, Map<string, ProbingInterface>>()
    for (const on of interfaces) {
      const group = groups.get(groupAddress(on)) ?? new Map<string, ProbingInterface>()
      groups.set(groupAddress(on), group)
      // The first address of an interface stands for the interface.
      if (!group.has(interfaceKey(on))) group.set(interfaceKey(on), on)
    }
    for (const [address, { socket }] of this.#sockets) {
      if (groups.has(address)) continue
      socket.close()
      this.#sockets.delete(address)
    }
    for (const [address, group] of groups) await this.#listen(address, group)
  }

  close(): void {
    for (const { socket } of this.#sockets.values()) socket.close()
    this.#sockets.clear()
  }

  async #listen(address: string, interfaces: ReadonlyMap<string, ProbingInterface>): Promise<void> {
    const group = await this.#socketFor(address, interfaces)
    if (group === undefined) return
    const { socket, joined } = group
    for (const [key, { family, name, address: via }] of interfaces) {
      if (joined.has(key)) continue
      try {
        socket.join(DISCOVERY_GROUP[family], family === 'IPv4' ? via : `::%${name}`)
        joined.add(key)
        this.#problems.resolve(key)
      } catch (error) {
        this.#report(key, error, { interface: name, address: via })
      }
    }
  }

  /** A socket that listens on these interfaces at most; undefined if the port cannot be bound. */
  async #socketFor(
    address: string,
    interfaces: ReadonlyMap<string, ProbingInterface>,
  ): Promise<GroupSocket | undefined> {
    const before = this.#sockets.get(address)
    if (before !== undefined && [...before.joined].every((key) => interfaces.has(key)))
      return before
    try {
      const [{ family } = { family: 'IPv4' as const }] = interfaces.values()
      const group: GroupSocket = { socket: await this.#open(family, address), joined: new Set() }
      this.#sockets.set(address, group)
      this.#problems.resolve(address)
      return group
    } catch (error) {
      this.#sockets.delete(address)
      this.#report(address, error, { address })
      return undefined
    } finally {
      // Only closing the socket ends the membership of an interface that has lost its address.
      before?.socket.close()
    }
  }

  #report(key: string, error: unknown, fields: Readonly<Record<string, string>>): void {
    this.#problems.report(
      key,
      { ...fields, port: DISCOVERY_PORT, err: error },
      'multicast listener failed: only Probes find cameras here',
    )
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

/** One socket serves all interfaces by IPv4. By IPv6, each interface has a group of its own. */
export function groupAddress({ family, name }: ProbingInterface): string {
  return family === 'IPv4' ? DISCOVERY_GROUP.IPv4 : `${DISCOVERY_GROUP.IPv6}%${name}`
}

/**
 * An interface that was removed and created again has another key, although its name is the same.
 */
function interfaceKey({ index, name, family }: ProbingInterface): string {
  return `${index} ${name} ${family}`
}
