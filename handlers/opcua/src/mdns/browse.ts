import { type Clock, type Logger, messageOf, systemClock } from '@akrijs/sdk'
import type { Datagram } from '@akrijs/sdk/network'
import { Bell } from './bell.js'
import { encodeQuery } from './dns-message.js'
import { type MdnsServer, mdnsServer, mergeServers } from './mdns-server.js'
import { MessageReader } from './message-reader.js'
import { type Family, MDNS_PORT, MulticastSocket } from './multicast-socket.js'
import { type LocalInterface, localInterfaces, networkList } from './networks.js'
import { QuestionSchedule } from './question-schedule.js'
import { ServiceCache } from './service-cache.js'

export interface BrowseOptions {
  readonly log: Logger
  readonly signal: AbortSignal
  /** @default systemClock */
  readonly clock?: Clock
  /** Names of the interfaces to listen on. @default all but the loopback */
  readonly interfaces?: readonly string[]
  /**
   * Only addresses in these are believed, `192.0.2.0/24`: who announces a server could name any. This machine and the metadata
   * of clouds are in none that does not name them.
   * @default the networks of the interface that the announcement came in on
   */
  readonly allowedNetworks?: readonly string[] | undefined
}

const SERVICE = ['_opcua-tcp', '_tcp', 'local']
const FAMILIES = ['IPv4', 'IPv6'] as const

/** The first list waits for the answers to three questions, in milliseconds: a shorter one would be taken for servers lost. */
const FIRST_LIST_MS = 3500
/** What is announced together is told together, in milliseconds. */
const GATHER_MS = 100
/** How often to see which interfaces there are, in milliseconds. */
const INTERFACES_MS = 2000
/** How soon a socket that could not be had, or broke, is opened anew, in milliseconds. */
const REOPEN_MS = 10_000
/** What comes within so long is looked at together, in milliseconds. */
const REST_MS = 10

/**
 * Follows who announces itself as `_opcua-tcp._tcp` by multicast DNS, on all networks of this machine. Gives a complete list
 * {@link FIRST_LIST_MS} after it began, and then whenever it is another one: a server that comes or says goodbye within
 * {@link GATHER_MS}, one that falls silent when the time of its records is over (120 s, as most announce it).
 * Ends with its signal.
 */
export async function* browseServers(
  options: BrowseOptions,
): AsyncGenerator<readonly MdnsServer[], void, void> {
  const { clock = systemClock, log, signal } = options
  const done = new AbortController()
  const until = AbortSignal.any([signal, done.signal])
  const browser = new Browser({ ...options, clock })
  const running = browser.run(until).catch((error: unknown) => {
    log.error({ err: error }, 'browsing for servers failed')
  })
  try {
    await clock.sleep(FIRST_LIST_MS, until).catch(() => undefined)
    for (let before: string | undefined; !until.aborted; ) {
      const servers = browser.servers()
      const now = JSON.stringify(servers)
      if (now !== before) yield servers
      before = now
      await browser.heard.wait(until)
      await clock.sleep(GATHER_MS, until).catch(() => undefined)
    }
  } finally {
    done.abort()
    await running
  }
}

/** An interface, and what was heard on it: it stays true for its time when the interface goes. */
interface Network {
  local: LocalInterface | undefined
  readonly joined: Set<Family>
  readonly cache: ServiceCache
  readonly schedule: QuestionSchedule
}

class Browser {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #only: readonly string[] | undefined
  readonly #reader: MessageReader
  readonly #networks = new Map<string, Network>()
  readonly #sockets = new Map<Family, MulticastSocket>()
  readonly #reopenAt = new Map<Family, number>()
  readonly #warned = new Set<string>()
  readonly #work = new Bell()
  /** Rings when the servers may be others. */
  readonly heard = new Bell()

  constructor({
    clock,
    log,
    interfaces,
    allowedNetworks,
  }: Omit<BrowseOptions, 'signal'> & { readonly clock: Clock }) {
    this.#clock = clock
    this.#log = log
    this.#only = interfaces
    this.#reader = new MessageReader({
      type: SERVICE,
      allowed: allowedNetworks === undefined ? undefined : networkList(allowedNetworks),
      onFlood: (sender) =>
        this.#warnOnce('flood', { sender }, 'more messages come by multicast than are read'),
    })
  }

  servers(): MdnsServer[] {
    const all = [...this.#networks.values()].flatMap(({ cache }) => cache.resolved())
    return mergeServers(all.map(mdnsServer).filter((server) => server !== undefined))
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      for (let interfacesAt = 0; !signal.aborted; ) {
        await this.#openSockets()
        if (interfacesAt <= this.#clock.monotonicMs()) {
          this.#lookAtInterfaces()
          interfacesAt = this.#clock.monotonicMs() + INTERFACES_MS
        }
        for (const network of this.#networks.values()) await this.#tend(network)
        const next = Math.min(
          interfacesAt,
          ...[...this.#networks.values()].map((network) => this.#nextOf(network)),
        )
        await this.#work.wait(signal, {
          clock: this.#clock,
          ms: Math.max(0, next - this.#clock.monotonicMs()),
        })
        await this.#clock.sleep(REST_MS, signal).catch(() => undefined)
      }
    } finally {
      for (const socket of this.#sockets.values()) socket.close()
    }
  }

  async #openSockets(): Promise<void> {
    for (const family of FAMILIES) {
      if (
        this.#sockets.has(family) ||
        (this.#reopenAt.get(family) ?? 0) > this.#clock.monotonicMs()
      )
        continue
      this.#reopenAt.set(family, this.#clock.monotonicMs() + REOPEN_MS)
      const onDatagram = (datagram: Datagram) => this.#take(datagram)
      const onBroken = (error: Error) => {
        this.#log.warn({ family, reason: messageOf(error) }, 'the multicast socket broke')
        this.#lose(family)
      }
      try {
        this.#sockets.set(family, await MulticastSocket.open(family, { onDatagram, onBroken }))
        this.#warned.delete(family)
        for (const network of this.#networks.values()) this.#join(network, family)
      } catch (error) {
        this.#warnOnce(
          family,
          { family, reason: messageOf(error) },
          `no multicast DNS: port ${MDNS_PORT} cannot be had`,
        )
      }
    }
  }

  #lose(family: Family): void {
    this.#sockets.delete(family)
    for (const { joined } of this.#networks.values()) joined.delete(family)
    this.#work.ring()
  }

  #lookAtInterfaces(): void {
    const present = new Map(localInterfaces(this.#only).map((local) => [local.name, local]))
    for (const [name, network] of this.#networks) {
      const now = present.get(name)
      if (network.local !== undefined && now?.ipv4 !== network.local.ipv4)
        this.#leave(network, 'IPv4')
      if (network.local !== undefined && !now?.hasIpv6) this.#leave(network, 'IPv6')
      network.local = now
      if (now === undefined && network.cache.nextDue(0) === Number.POSITIVE_INFINITY)
        this.#networks.delete(name)
    }
    for (const [name, local] of present) {
      const network = this.#networks.get(name) ?? {
        local,
        joined: new Set(),
        cache: new ServiceCache({ type: SERVICE }),
        schedule: new QuestionSchedule(),
      }
      this.#networks.set(name, network)
      for (const family of FAMILIES) this.#join(network, family)
    }
  }

  #join(network: Network, family: Family): void {
    const { local, joined } = network
    const socket = this.#sockets.get(family)
    if (local === undefined || socket === undefined) return
    if (family === 'IPv4' ? local.ipv4 === undefined : !local.hasIpv6) return
    try {
      const isNew = socket.join(local)
      if (!isNew && joined.has(family)) return
    } catch (error) {
      const reason = messageOf(error)
      this.#warnOnce(
        `${family} ${local.name}`,
        { interface: local.name, family, reason },
        'no multicast on an interface',
      )
      return
    }
    joined.add(family)
    // Somebody new may hear it.
    network.schedule.begin(this.#clock.monotonicMs())
  }

  #leave({ local, joined }: Network, family: Family): void {
    if (local !== undefined && joined.delete(family)) this.#sockets.get(family)?.leave(local)
  }

  /** Forgets what is over, and asks what is to be asked. */
  async #tend(network: Network): Promise<void> {
    const { local, cache, schedule } = network
    const now = this.#clock.monotonicMs()
    cache.expire(now)
    // What is gone may be back soon, or may never have been gone.
    if (cache.takeRemovals() > 0) schedule.begin(now)
    const { questions, known } = cache.takeDueQuestions(now, schedule.takeDue(now))
    this.heard.ring()
    if (cache.refused > 0)
      this.#warnOnce(
        'many',
        { refused: cache.refused },
        'too many servers are announced, some are left out',
      )
    for (const message of encodeQuery(questions, known))
      for (const family of network.joined)
        if (local !== undefined) await this.#send(message, local, family)
  }

  async #send(message: Buffer, on: LocalInterface, family: Family): Promise<void> {
    try {
      await this.#sockets.get(family)?.send(message, on)
    } catch (error) {
      // It goes down, or has gone: what it was asked is asked again.
      this.#log.debug(
        { interface: on.name, family, reason: messageOf(error) },
        'a question could not be sent',
      )
    }
  }

  #nextOf({ joined, cache, schedule }: Network): number {
    return Math.min(
      joined.size > 0 ? schedule.dueAt : Number.POSITIVE_INFINITY,
      cache.nextDue(this.#clock.monotonicMs()),
    )
  }

  #take(datagram: Datagram): void {
    const interfaces = [...this.#networks.values()].flatMap(({ local }) => local ?? [])
    const heard = this.#reader.read(datagram.bytes, datagram, interfaces, this.#clock.monotonicMs())
    if (heard === undefined) return
    this.#networks
      .get(heard.local.name)
      ?.cache.take(heard.records, heard.sender, this.#clock.monotonicMs())
    this.#work.ring()
  }

  #warnOnce(key: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#warned.has(key)) return
    this.#warned.add(key)
    this.#log.warn(fields, message)
  }
}
