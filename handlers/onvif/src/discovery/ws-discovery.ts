import { createHash, randomUUID } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { type Clock, type Logger, messageOf } from '@akrijs/sdk'
import { type Datagram, SenderBudget, UdpSocket } from '@akrijs/sdk/network'
import { OnvifMessageError } from '../errors.js'
import { GroupListener } from './group-listener.js'
import {
  type Announcement,
  DISCOVERY_GROUP,
  DISCOVERY_PORT,
  type DiscoveryMessage,
  decodeMessage,
  encodeProbe,
  isOnvifDevice,
  MAX_DATAGRAM_BYTES,
  PROBED_TYPES,
} from './message.js'
import { type ProbingInterface, probingInterfaces } from './network-interfaces.js'
import {
  MULTICAST,
  type RetransmissionParameters,
  retransmissions,
  UNICAST,
} from './retransmission.js'

/** Something that a device said of itself. */
export interface Heard {
  readonly kind: 'ProbeMatch' | 'Hello' | 'Bye'
  readonly announcement: Announcement
  /** The address that it came from, with a zone where it has one. */
  readonly source: string
}

export interface WsDiscoveryOptions {
  /** Names of the interfaces to probe on. @default all but the loopback interface and those of container networks */
  readonly interfaces?: readonly string[] | undefined
  /** Addresses that are asked directly, in each round. */
  readonly probeAddresses: readonly string[]
  /** Whether what comes from this address is listened to. */
  readonly allows: (address: string) => boolean
  /** How many cameras that are known, or asked directly, are at this address: they are heard however much others say. */
  readonly camerasAt: (address: string) => number
  readonly onHeard: (heard: Heard) => void
  /** Something is wrong that never should be. */
  readonly onFailure: (error: unknown) => void
  readonly clock: Clock
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  readonly log: Logger
  /** Ends what is under way. Close it too. */
  readonly signal: AbortSignal
}

/**
 * What is read, in datagrams as cameras send them: longer ones count for several. Of each of IPv4 and of IPv6, half a thousand in a
 * second cost the processor a fifth of that at worst.
 */
const BUDGET = {
  perSender: 128,
  senders: 2048,
  perSecond: 500,
  pool: 'family',
  round: 'renewed',
} as const
/** What is read in any case of each camera that is known, in a round: it answers two Probes on each interface. */
const RESERVED_PER_CAMERA = 8
/** Tags and attributes of a datagram that counts for one: that of a camera has half as many. */
const MARKUP_PER_DATAGRAM = 128
/** Datagrams of one round that are known again. */
const MAX_REMEMBERED = 10_000
/** How long answers to a Probe are taken, in milliseconds: the specification gives devices half a second. */
const ANSWER_MS = 30_000

/** The client of WS-Discovery: probes on all interfaces, and hears Hello and Bye. */
export class WsDiscovery {
  readonly #options: WsDiscoveryOptions
  readonly #listener: GroupListener
  readonly #probing = new Map<
    string,
    { readonly on: ProbingInterface; readonly socket: UdpSocket }
  >()
  readonly #directed = new Map<'IPv4' | 'IPv6', UdpSocket>()
  /** MessageIDs of our own Probes, and until when answers are taken. */
  readonly #asked = new Map<string, number>()
  readonly #budget: SenderBudget
  /** Digests of the datagrams of this round and of the one before: a Bye of before must not be taken for one after a Hello. */
  #seen = new Set<string>()
  #seenBefore = new Set<string>()
  /** What went wrong, told once until it goes right again. */
  readonly #troubles = new Set<string>()

  constructor(options: WsDiscoveryOptions) {
    this.#options = options
    this.#budget = new SenderBudget({
      ...BUDGET,
      reservedFor: (address) => RESERVED_PER_CAMERA * options.camerasAt(address),
    })
    this.#listener = new GroupListener({
      log: options.log,
      onDatagram: (datagram) => this.#onDatagram(datagram),
    })
  }

  /**
   * One round: looks which interfaces there are, sends the Probes, and waits so long. Each is sent again as often as the
   * specification has it, also when that takes longer. What is heard is told at once, also between rounds.
   */
  async round(windowMs: number): Promise<void> {
    const { clock, log, probeAddresses, signal } = this.#options
    const { ofOneSender: ofOneAddress, ofAll: inAll } = this.#budget.renew()
    this.#seenBefore = this.#seen
    this.#seen = new Set()
    if (ofOneAddress + inAll > 0)
      log.warn(
        { ofOneAddress, inAll },
        'more datagrams came than are read: of one address, or of all that are no known cameras',
      )
    for (const [id, until] of this.#asked) if (until < clock.monotonicMs()) this.#asked.delete(id)
    await this.#followInterfaces()
    for (const { on, socket } of this.#probing.values()) {
      for (const type of PROBED_TYPES) {
        this.#own(
          this.#send(this.#newProbe(type), MULTICAST, (bytes) =>
            this.#sendToGroup(on, socket, bytes),
          ),
        )
      }
    }
    for (const address of probeAddresses) this.probeAt(address)
    await clock.sleep(windowMs, signal).catch(() => undefined)
  }

  /** Asks one address directly, such as that of a device that said Hello without saying where its services are. */
  probeAt(address: string): void {
    this.#own(this.#probeAt(address))
  }

  close(): void {
    this.#listener.close()
    for (const { socket } of this.#probing.values()) socket.close()
    for (const socket of this.#directed.values()) socket.close()
    this.#probing.clear()
    this.#directed.clear()
  }

  async #probeAt(address: string): Promise<void> {
    try {
      const socket = await this.#directedSocket(
        isIPv6(address.replace(/%.*/, '')) ? 'IPv6' : 'IPv4',
      )
      const send = (bytes: Uint8Array) => socket.send(bytes, DISCOVERY_PORT, address)
      await Promise.all(PROBED_TYPES.map((type) => this.#send(this.#newProbe(type), UNICAST, send)))
      this.#troubles.delete(address)
    } catch (error) {
      this.#trouble(address, { address, reason: messageOf(error) }, 'an address cannot be asked')
    }
  }

  /** Sends a message and repeats it. */
  async #send(
    bytes: Uint8Array,
    parameters: RetransmissionParameters,
    send: (bytes: Uint8Array) => Promise<unknown>,
  ): Promise<void> {
    const { clock, random, signal } = this.#options
    await send(bytes)
    for (const wait of retransmissions(parameters, random)) {
      await clock.sleep(wait, signal).catch(() => undefined)
      if (signal.aborted) return
      await send(bytes)
    }
  }

  async #sendToGroup(on: ProbingInterface, socket: UdpSocket, bytes: Uint8Array): Promise<void> {
    if (this.#probing.get(on.key)?.socket !== socket) return
    const group = on.family === 'IPv4' ? DISCOVERY_GROUP.IPv4 : `${DISCOVERY_GROUP.IPv6}%${on.name}`
    try {
      await socket.send(bytes, DISCOVERY_PORT, group)
    } catch (error) {
      this.#lose(on, error)
    }
  }

  #newProbe(type: (typeof PROBED_TYPES)[number]): Uint8Array {
    const id = randomUUID()
    this.#asked.set(id, this.#options.clock.monotonicMs() + ANSWER_MS)
    return encodeProbe(id, type)
  }

  async #followInterfaces(): Promise<void> {
    const { interfaces: only, log } = this.#options
    const found = new Map(probingInterfaces({ only }).map((one) => [one.key, one]))
    for (const [key, { on, socket }] of this.#probing) {
      if (found.has(key)) continue
      socket.close()
      this.#probing.delete(key)
      log.info({ interface: on.name, address: on.address }, 'an interface is gone')
    }
    for (const on of found.values()) if (!this.#probing.has(on.key)) await this.#open(on)
    await this.#listener.follow([...found.values()])
    if (found.size > 0 || this.#options.probeAddresses.length > 0)
      this.#troubles.delete(NO_INTERFACE)
    else this.#trouble(NO_INTERFACE, { interfaces: only }, 'there is no interface to probe on')
  }

  async #open(on: ProbingInterface): Promise<void> {
    try {
      const socket = await UdpSocket.open({
        family: on.family,
        address: on.address,
        multicastInterface: on.family === 'IPv4' ? on.address : `::%${on.name}`,
        onDatagram: (datagram) => this.#onDatagram(datagram),
        onBroken: (error) => this.#lose(on, error),
      })
      if (this.#options.signal.aborted) return socket.close()
      this.#probing.set(on.key, { on, socket })
      this.#troubles.delete(on.key)
      this.#options.log.info({ interface: on.name, address: on.address }, 'probing on an interface')
    } catch (error) {
      // An address of IPv6 cannot be used in the first second or two, until nobody else has claimed it.
      this.#trouble(
        on.key,
        { interface: on.name, address: on.address, reason: messageOf(error) },
        'an interface cannot be used',
      )
    }
  }

  /** It is opened anew in the next round. */
  #lose(on: ProbingInterface, error: unknown): void {
    this.#probing.get(on.key)?.socket.close()
    this.#probing.delete(on.key)
    this.#trouble(
      on.key,
      { interface: on.name, address: on.address, reason: messageOf(error) },
      'an interface cannot be used',
    )
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
    // Somebody else may have been faster, or all may be over.
    const other = this.#directed.get(family)
    if (other !== undefined || this.#options.signal.aborted) socket.close()
    if (other !== undefined) return other
    if (!this.#options.signal.aborted) this.#directed.set(family, socket)
    return socket
  }

  #onDatagram(datagram: Datagram): void {
    try {
      if (this.#isToBeRead(datagram)) this.#read(datagram)
    } catch (error) {
      this.#options.onFailure(error)
    }
  }

  #isToBeRead({ bytes, address }: Datagram): boolean {
    const { signal, allows, clock, log } = this.#options
    if (signal.aborted || !allows(address)) return false
    if (bytes.length > MAX_DATAGRAM_BYTES) {
      log.debug({ address, bytes: bytes.length }, 'a datagram is longer than what is read')
      return false
    }
    // Most datagrams are repetitions: to tell them costs a fraction of reading them.
    const digest = createHash('sha1').update(address).update(bytes).digest('base64')
    if (this.#seen.has(digest) || this.#seenBefore.has(digest)) return false
    if (!this.#budget.take(address, amountOf(bytes), clock.monotonicMs())) return false
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(digest)
    return true
  }

  #read({ bytes, address }: Datagram): void {
    const { onHeard, log } = this.#options
    let message: DiscoveryMessage
    try {
      message = decodeMessage(bytes)
    } catch (error) {
      if (!(error instanceof OnvifMessageError)) throw error
      log.debug({ address, reason: error.message }, 'a datagram makes no sense')
      return
    }
    if (message.kind === 'ProbeMatches') {
      const announcements = this.#asked.has(message.relatesTo)
        ? message.matches.filter(isOnvifDevice)
        : []
      for (const announcement of announcements)
        onHeard({ kind: 'ProbeMatch', announcement, source: address })
    } else if (
      message.kind === 'Bye' ||
      (message.kind === 'Hello' && isOnvifDevice(message.announcement))
    ) {
      onHeard({ kind: message.kind, announcement: message.announcement, source: address })
    }
  }

  #own(work: Promise<void>): void {
    work.catch((error: unknown) => this.#options.onFailure(error))
  }

  #trouble(about: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#options.signal.aborted || this.#troubles.has(about)) return
    this.#troubles.add(about)
    this.#options.log.warn(fields, message)
  }
}

const NO_INTERFACE = ''

/** For how many a datagram counts: what it costs to read it goes by its tags and attributes. */
function amountOf(bytes: Uint8Array): number {
  let markup = 0
  for (const byte of bytes) if (byte === LESS_THAN || byte === EQUALS) markup++
  return 1 + Math.floor(markup / MARKUP_PER_DATAGRAM)
}

const LESS_THAN = 0x3c
const EQUALS = 0x3d
