import { randomUUID } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { type Datagram, type MulticastSearch, ProblemLog, UdpSocket } from '@akrijs/sdk/network'
import { OnvifMessageError } from '../errors.js'
import { DatagramFilter, type DatagramFilterOptions, isHello } from './datagram-filter.js'
import { GroupListener, groupAddress } from './group-listener.js'
import {
  type Announcement,
  DISCOVERY_PORT,
  decodeMessage,
  encodeProbe,
  encodeResolve,
  isOnvifDevice,
  PROBED_TYPES,
} from './message.js'
import { type ProbingInterface, probingInterfaces } from './network-interfaces.js'
import { MULTICAST, retransmissions, UNICAST } from './retransmission.js'

/** A device announced something about itself. The answer to a Resolve is a ProbeMatch here. */
export interface DiscoveryEvent {
  readonly kind: 'ProbeMatch' | 'Hello' | 'Bye'
  readonly announcement: Announcement
  /** The address of the sender, with its zone if it has one. */
  readonly source: string
  /** The interface that received the datagram, if that is certain. */
  readonly interface: string | undefined
}

export interface WsDiscoveryOptions extends DatagramFilterOptions {
  /**
   * Names of the interfaces to probe on. @default all but the loopback interface and those of
   * container networks
   */
  readonly interfaces?: readonly string[] | undefined
  /** Addresses that each round probes directly. */
  readonly probeAddresses: readonly string[]
  /** Gets where Probes were sent, and the errors. */
  readonly search: MulticastSearch
  readonly onEvent: (event: DiscoveryEvent) => void
  /** Takes a device of another type than ONVIF that answers a Probe. */
  readonly onOtherDevice: (announcement: Announcement, source: string) => void
  /** Takes the address of a device that answers by a SOAP fault, and its words. */
  readonly onFault: (address: string, words: string) => void
  /** Takes a bug of this program. */
  readonly onFailure: (error: unknown) => void
  /** Ends repetitions and events. {@link WsDiscovery.close} releases the sockets. */
  readonly signal: AbortSignal
}

/**
 * How long an answer to a Probe is accepted, in milliseconds: the specification gives devices half
 * a second.
 */
const ANSWER_MS = 30_000

/** The client of WS-Discovery: probes on all interfaces, and listens to Hello and Bye. */
export class WsDiscovery {
  readonly #options: WsDiscoveryOptions
  readonly #random: () => number
  readonly #listener: GroupListener
  readonly #filter: DatagramFilter
  readonly #problems: ProblemLog
  readonly #probing = new Map<
    string,
    { readonly on: ProbingInterface; readonly socket: UdpSocket }
  >()
  readonly #directed = new Map<'IPv4' | 'IPv6', UdpSocket>()
  /** Until when answers to a Probe are accepted, by its MessageID. */
  readonly #probes = new Map<string, number>()
  /** The announcements without URLs that a Resolve concerns, by its MessageID. */
  readonly #resolves = new Map<
    string,
    { readonly announcement: Announcement; readonly end: number }
  >()

  /** @param random returns numbers of [0, 1) */
  constructor(options: WsDiscoveryOptions, random = Math.random) {
    this.#options = options
    this.#random = random
    this.#filter = new DatagramFilter({
      ...options,
      onForeign: (address) => {
        options.search.ignored(address)
        options.onForeign(address)
      },
    })
    this.#problems = new ProblemLog(options.log)
    this.#listener = new GroupListener({
      log: options.log,
      onDatagram: (datagram) => this.#onDatagram(datagram, { isAnswer: false }),
    })
  }

  /**
   * Follows the interfaces of the machine, sends the Probes, and waits. The repetitions of the
   * Probes may take longer than the round. Events come at any time, also between rounds.
   */
  async round(windowMs: number): Promise<void> {
    const { clock, probeAddresses, signal } = this.#options
    this.#filter.beginRound()
    const now = clock.monotonicMs()
    for (const [id, end] of this.#probes) if (end < now) this.#probes.delete(id)
    for (const [id, { end }] of this.#resolves) if (end < now) this.#resolves.delete(id)
    await this.#followInterfaces()
    for (const { on, socket } of this.#probing.values()) {
      const send = (bytes: Uint8Array) => this.#sendToGroup(on, socket, bytes)
      for (const type of PROBED_TYPES)
        this.#track(this.#send(this.#newProbe(type), MULTICAST, send))
    }
    for (const to of probeAddresses) this.#track(this.#probeAt(to, this.#options.search))
    await clock.sleep(windowMs, signal).catch(() => undefined)
  }

  /** Probes one address directly, such as that of a device whose Hello named no URL. */
  probeAt(address: string): void {
    this.#track(this.#probeAt(address))
  }

  /**
   * Asks for the URLs of a device that announced none: the network, as the specification has it,
   * and the address that announced the device.
   */
  resolve(announcement: Announcement, address: string): void {
    const id = randomUUID()
    const end = this.#options.clock.monotonicMs() + ANSWER_MS
    this.#resolves.set(id, { announcement, end })
    const message = encodeResolve(id, announcement.endpoint)
    for (const { on, socket } of this.#probing.values())
      this.#track(this.#send(message, UNICAST, (bytes) => this.#sendToGroup(on, socket, bytes)))
    this.#track(this.#sendTo(address, [message], { problem: 'directed Resolve failed' }))
  }

  close(): void {
    this.#listener.close()
    for (const { socket } of this.#probing.values()) socket.close()
    for (const socket of this.#directed.values()) socket.close()
    this.#probing.clear()
    this.#directed.clear()
  }

  #probeAt(address: string, search?: MulticastSearch): Promise<void> {
    const probes = PROBED_TYPES.map((type) => this.#newProbe(type))
    return this.#sendTo(address, probes, { problem: 'directed Probe failed', search })
  }

  async #sendTo(
    address: string,
    messages: readonly Uint8Array[],
    {
      problem,
      search,
    }: { readonly problem: string; readonly search?: MulticastSearch | undefined },
  ): Promise<void> {
    try {
      const socket = await this.#directedSocket(
        isIPv6(address.replace(/%.*/, '')) ? 'IPv6' : 'IPv4',
      )
      const send = async (bytes: Uint8Array) => {
        await socket.send(bytes, DISCOVERY_PORT, address)
        search?.sent({ to: address })
      }
      await Promise.all(messages.map((message) => this.#send(message, UNICAST, send)))
      this.#problems.resolve(address)
    } catch (error) {
      search?.failed({ to: address }, error)
      this.#report(address, { address, err: error }, problem)
    }
  }

  /** Sends a message and its repetitions. */
  async #send(
    bytes: Uint8Array,
    repeats: number,
    send: (bytes: Uint8Array) => Promise<unknown>,
  ): Promise<void> {
    const { clock, signal } = this.#options
    await send(bytes)
    for (const delayMs of retransmissions(repeats, this.#random)) {
      await clock.sleep(delayMs, signal).catch(() => undefined)
      if (signal.aborted) return
      await send(bytes)
    }
  }

  async #sendToGroup(on: ProbingInterface, socket: UdpSocket, bytes: Uint8Array): Promise<void> {
    if (this.#probing.get(on.key)?.socket !== socket) return
    try {
      await socket.send(bytes, DISCOVERY_PORT, groupAddress(on))
      this.#options.search.sent(placeOf(on))
    } catch (error) {
      this.#lose(on, error)
    }
  }

  #newProbe(type: (typeof PROBED_TYPES)[number]): Uint8Array {
    const id = randomUUID()
    this.#probes.set(id, this.#options.clock.monotonicMs() + ANSWER_MS)
    return encodeProbe(id, type)
  }

  async #followInterfaces(): Promise<void> {
    const { interfaces: only, log } = this.#options
    const found = new Map(probingInterfaces({ only }).map((on) => [on.key, on]))
    this.#options.search.keep([...found.values()].map(placeOf))
    for (const [key, { on, socket }] of this.#probing) {
      if (found.has(key)) continue
      socket.close()
      this.#probing.delete(key)
      log.info({ interface: on.name, address: on.address }, 'interface removed')
    }
    for (const on of found.values()) if (!this.#probing.has(on.key)) await this.#open(on)
    await this.#listener.follow([...found.values()])
    if (found.size > 0 || this.#options.probeAddresses.length > 0)
      this.#problems.resolve(NO_INTERFACE)
    else this.#report(NO_INTERFACE, { interfaces: only }, 'no interface found to probe on')
  }

  async #open(on: ProbingInterface): Promise<void> {
    try {
      const socket = await UdpSocket.open({
        family: on.family,
        address: on.address,
        multicastInterface: on.family === 'IPv4' ? on.address : `::%${on.name}`,
        onDatagram: (datagram) => this.#onDatagram(datagram, { via: on.name }),
        onBroken: (error) => this.#lose(on, error),
      })
      if (this.#options.signal.aborted) return socket.close()
      this.#probing.set(on.key, { on, socket })
      this.#problems.resolve(on.key)
      this.#options.log.info({ interface: on.name, address: on.address }, 'interface opened')
    } catch (error) {
      // A new IPv6 address cannot be used for a second or two, until the kernel knows that it is
      // unique.
      this.#lose(on, error)
    }
  }

  /** The next round opens the interface again. */
  #lose(on: ProbingInterface, error: unknown): void {
    this.#probing.get(on.key)?.socket.close()
    this.#probing.delete(on.key)
    const fields = { interface: on.name, address: on.address, err: error }
    this.#options.search.failed(placeOf(on), error)
    this.#report(on.key, fields, 'interface failed')
  }

  async #directedSocket(family: 'IPv4' | 'IPv6'): Promise<UdpSocket> {
    const open = this.#directed.get(family)
    if (open !== undefined) return open
    const socket = await UdpSocket.open({
      family,
      address: family === 'IPv4' ? '0.0.0.0' : '::',
      onDatagram: (datagram) => this.#onDatagram(datagram),
      onBroken: () => this.#directed.delete(family),
    })
    // While this socket opened, another call may have opened a socket, or the discovery may have
    // ended.
    const other = this.#directed.get(family)
    if (other !== undefined || this.#options.signal.aborted) socket.close()
    else this.#directed.set(family, socket)
    return other ?? socket
  }

  /** @param isAnswer whether the socket gets answers to questions only */
  #onDatagram(
    datagram: Datagram,
    { via, isAnswer = true }: { readonly via?: string; readonly isAnswer?: boolean } = {},
  ): void {
    if (this.#options.signal.aborted) return
    try {
      if (this.#filter.accepts(datagram)) this.#read(datagram, via, isAnswer)
    } catch (error) {
      const { address, bytes } = datagram
      if (OnvifMessageError.is(error)) {
        this.#options.log.debug({ address, err: error }, 'datagram rejected')
        if (isAnswer || isHello(bytes)) this.#options.onUnreadable(address, error.message)
      } else this.#options.onFailure(error)
    }
  }

  /** @throws OnvifMessageError */
  #read({ bytes, address: source }: Datagram, via: string | undefined, isAnswer: boolean): void {
    const { onEvent, onOtherDevice, onFault } = this.#options
    const message = decodeMessage(bytes)
    const from = { source, interface: source.split('%')[1] ?? via }
    if (message.kind === 'ProbeMatches') {
      if (!this.#probes.has(message.relatesTo))
        throw new OnvifMessageError('ProbeMatches relates to no Probe of this handler')
      for (const announcement of message.matches)
        if (isOnvifDevice(announcement)) onEvent({ kind: 'ProbeMatch', announcement, ...from })
        else onOtherDevice(announcement, source)
    } else if (message.kind === 'ResolveMatches') {
      const asked = this.#resolves.get(message.relatesTo)?.announcement
      const match = message.matches.find(({ uuid }) => uuid === asked?.uuid)
      if (asked === undefined || match === undefined || match.xAddrs.length === 0) return
      const { xAddrs, metadataVersion = asked.metadataVersion } = match
      const announcement = { ...asked, xAddrs, metadataVersion }
      onEvent({ kind: 'ProbeMatch', announcement, ...from })
    } else if (
      message.kind === 'Bye' ||
      (message.kind === 'Hello' && isOnvifDevice(message.announcement))
    ) {
      onEvent({ kind: message.kind, announcement: message.announcement, ...from })
    } else if (message.kind === 'Fault' && isAnswer) onFault(source, message.words)
    else if (message.kind === 'other' && isAnswer)
      throw new OnvifMessageError(`${message.name} is no answer to a Probe`)
  }

  /** Owns work that nothing waits for. */
  #track(work: Promise<void>): void {
    work.catch((error: unknown) => this.#options.onFailure(error))
  }

  #report(key: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (!this.#options.signal.aborted) this.#problems.report(key, fields, message)
  }
}

function placeOf({ name, address }: ProbingInterface) {
  return { interface: name, address }
}

/** The key of a problem that concerns no interface. */
const NO_INTERFACE = ''
