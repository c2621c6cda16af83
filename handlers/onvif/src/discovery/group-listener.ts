import { type Logger, messageOf } from '@akrijs/sdk'
import { type Datagram, UdpSocket } from '@akrijs/sdk/network'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'
import type { ProbingInterface } from './network-interfaces.js'

interface Listening {
  readonly socket: UdpSocket
  /** Interfaces that the socket listens on. The kernel's membership is one of an interface, however many addresses that has. */
  readonly joined: Set<string>
}

/**
 * Hears what devices tell everybody: Hello and Bye. Its sockets are bound to the groups, not to all addresses: so they take
 * nothing away from another program of this machine that is a device itself.
 */
export class GroupListener {
  readonly #log: Logger
  readonly #onDatagram: (datagram: Datagram) => void
  /** By the address that they are bound to. */
  readonly #listening = new Map<string, Listening>()
  /** What could not be listened to, told once until it can. */
  readonly #deaf = new Set<string>()

  constructor({
    log,
    onDatagram,
  }: { readonly log: Logger; readonly onDatagram: (datagram: Datagram) => void }) {
    this.#log = log
    this.#onDatagram = onDatagram
  }

  /** Listens on these interfaces, and no more on others. */
  async follow(interfaces: readonly ProbingInterface[]): Promise<void> {
    const wanted = new Map<string, Map<string, ProbingInterface>>()
    for (const one of interfaces) {
      const group = wanted.get(groupAddress(one)) ?? new Map<string, ProbingInterface>()
      wanted.set(groupAddress(one), group)
      // Any of its addresses stands for the interface.
      if (!group.has(interfaceOf(one))) group.set(interfaceOf(one), one)
    }
    for (const [address, { socket }] of this.#listening) {
      if (wanted.has(address)) continue
      socket.close()
      this.#listening.delete(address)
    }
    for (const [address, group] of wanted) await this.#listen(address, group)
  }

  close(): void {
    for (const { socket } of this.#listening.values()) socket.close()
    this.#listening.clear()
  }

  async #listen(address: string, interfaces: ReadonlyMap<string, ProbingInterface>): Promise<void> {
    const listening = await this.#socketFor(address, interfaces)
    if (listening === undefined) return
    const { socket, joined } = listening
    for (const [key, { family, name, address: own }] of interfaces) {
      if (joined.has(key)) continue
      try {
        socket.join(DISCOVERY_GROUP[family], family === 'IPv4' ? own : `::%${name}`)
        joined.add(key)
        this.#deaf.delete(key)
      } catch (error) {
        this.#tellDeaf(key, error, { interface: name, address: own })
      }
    }
  }

  /** The socket, on these interfaces at most; undefined where the port cannot be had. */
  async #socketFor(
    address: string,
    interfaces: ReadonlyMap<string, ProbingInterface>,
  ): Promise<Listening | undefined> {
    const before = this.#listening.get(address)
    if (before !== undefined && [...before.joined].every((key) => interfaces.has(key)))
      return before
    try {
      const [{ family } = { family: 'IPv4' as const }] = interfaces.values()
      const listening: Listening = { socket: await this.#open(family, address), joined: new Set() }
      this.#listening.set(address, listening)
      this.#deaf.delete(address)
      return listening
    } catch (error) {
      this.#listening.delete(address)
      this.#tellDeaf(address, error, { address })
      return undefined
    } finally {
      // A membership of an interface without an address can be given up in no other way: it is told by an address.
      before?.socket.close()
    }
  }

  #tellDeaf(about: string, error: unknown, fields: Readonly<Record<string, string>>): void {
    if (this.#deaf.has(about)) return
    this.#deaf.add(about)
    this.#log.warn(
      { ...fields, port: DISCOVERY_PORT, reason: messageOf(error) },
      'Hello and Bye of cameras are not heard here; they are found by probing alone',
    )
  }

  #open(family: 'IPv4' | 'IPv6', address: string): Promise<UdpSocket> {
    return UdpSocket.open({
      family,
      address,
      port: DISCOVERY_PORT,
      shared: true,
      onDatagram: this.#onDatagram,
      onBroken: () => this.#listening.delete(address),
    })
  }
}

/** One socket hears a group on all interfaces; that of IPv6 is another group on each of them. */
function groupAddress({ family, name }: ProbingInterface): string {
  return family === 'IPv4' ? DISCOVERY_GROUP.IPv4 : `${DISCOVERY_GROUP.IPv6}%${name}`
}

/** One that goes and comes back is another one, whatever its name. */
function interfaceOf({ index, name, family }: ProbingInterface): string {
  return `${index} ${name} ${family}`
}
