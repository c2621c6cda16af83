import { type Clock, type Logger, systemClock } from '@akrijs/sdk'
import type { Datagram } from '@akrijs/sdk/network'
import { Bell } from './bell.js'
import { encodeQuery } from './dns-encoder.js'
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
  /**
   * The networks of acceptable addresses, such as `192.0.2.0/24`: a sender could announce any
   * address. This machine and the metadata services of clouds are acceptable only if named.
   * @default the networks of the interface that received the announcement
   */
  readonly allowedNetworks?: readonly string[] | undefined
}

const SERVICE = ['_opcua-tcp', '_tcp', 'local']
const FAMILIES = ['IPv4', 'IPv6'] as const

/** The first list waits for the answers to three queries: a partial list would remove Instances. */
const FIRST_LIST_MS = 3500
/** Changes within this time are in one list. */
const GATHER_MS = 100
/** The interval between reads of the interface table. */
const INTERFACES_MS = 2000
/** The wait before a failed socket is opened again. */
const REOPEN_MS = 10_000
/** Messages within this time are processed together. */
const REST_MS = 10

/**
 * Browses for `_opcua-tcp._tcp` by multicast DNS on all networks of this machine. Yields a complete
 * list after {@link FIRST_LIST_MS}, and then each changed list: after an announcement or a goodbye
 * within {@link GATHER_MS}, and after the expiry of a silent server (usually 120 s).
 * Ends with its signal.
 * @param options.interfaces names of the interfaces to use @default all but the loopback interface
 */
export async function* browseServers(
  options: BrowseOptions,
  { interfaces }: { readonly interfaces?: readonly string[] } = {},
): AsyncGenerator<readonly MdnsServer[], void, void> {
  const { clock = systemClock, signal } = options
  const done = new AbortController()
  const until = AbortSignal.any([signal, done.signal])
  const browser = new Browser({ ...options, clock }, interfaces)
  const running = browser.run(until).finally(() => done.abort())
  // The failure is thrown below.
  running.catch(() => undefined)
  try {
    await clock.sleep(FIRST_LIST_MS, until).catch(() => undefined)
    for (let previous: string | undefined; !until.aborted; ) {
      const servers = browser.servers()
      const current = JSON.stringify(servers)
      if (current !== previous) yield servers
      previous = current
      await browser.changed.wait(until)
      await clock.sleep(GATHER_MS, until).catch(() => undefined)
    }
  } finally {
    done.abort()
    await running
  }
}

/** An interface and its received records, which stay valid for their time without the interface. */
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
  /** Rings when the servers may have changed. */
  readonly changed = new Bell()

  constructor(
    { clock, log, allowedNetworks }: BrowseOptions & { readonly clock: Clock },
    interfaces: readonly string[] | undefined,
  ) {
    this.#clock = clock
    this.#log = log
    this.#only = interfaces
    this.#reader = new MessageReader({
      type: SERVICE,
      allowed: allowedNetworks === undefined ? undefined : networkList(allowedNetworks),
      onFlood: (sender) =>
        this.#warnOnce('flood', { sender }, 'multicast messages over the limit dropped'),
    })
  }

  servers(): MdnsServer[] {
    const services = [...this.#networks.values()].flatMap(({ cache }) => cache.resolved())
    return mergeServers(services.map(mdnsServer).filter((server) => server !== undefined))
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      for (let interfacesAt = 0; !signal.aborted; ) {
        await this.#openSockets()
        if (interfacesAt <= this.#clock.monotonicMs()) {
          this.#readInterfaces()
          interfacesAt = this.#clock.monotonicMs() + INTERFACES_MS
        }
        for (const network of this.#networks.values()) await this.#update(network)
        const networks = [...this.#networks.values()]
        const next = Math.min(interfacesAt, ...networks.map((network) => this.#nextDue(network)))
        const ms = Math.max(0, next - this.#clock.monotonicMs())
        await this.#work.wait(signal, { clock: this.#clock, ms })
        await this.#clock.sleep(REST_MS, signal).catch(() => undefined)
      }
    } finally {
      for (const socket of this.#sockets.values()) socket.close()
    }
  }

  async #openSockets(): Promise<void> {
    for (const family of FAMILIES) {
      const now = this.#clock.monotonicMs()
      if (this.#sockets.has(family) || (this.#reopenAt.get(family) ?? 0) > now) continue
      this.#reopenAt.set(family, now + REOPEN_MS)
      const onDatagram = (datagram: Datagram) => this.#take(datagram)
      const onBroken = (error: Error) => {
        this.#log.warn({ family, err: error }, 'multicast socket failed')
        this.#removeSocket(family)
      }
      try {
        this.#sockets.set(family, await MulticastSocket.open(family, { onDatagram, onBroken }))
        this.#warned.delete(family)
        for (const network of this.#networks.values()) this.#join(network, family)
      } catch (error) {
        const fields = { family, port: MDNS_PORT, err: error }
        this.#warnOnce(family, fields, 'multicast DNS port not opened')
      }
    }
  }

  #removeSocket(family: Family): void {
    this.#sockets.delete(family)
    for (const { joined } of this.#networks.values()) joined.delete(family)
    this.#work.ring()
  }

  #readInterfaces(): void {
    const present = new Map(localInterfaces(this.#only).map((local) => [local.name, local]))
    for (const [name, network] of this.#networks) {
      const local = present.get(name)
      if (network.local !== undefined && local?.ipv4 !== network.local.ipv4)
        this.#leave(network, 'IPv4')
      if (network.local !== undefined && !local?.hasIpv6) this.#leave(network, 'IPv6')
      network.local = local
      if (local === undefined && network.cache.nextDue(0) === Number.POSITIVE_INFINITY)
        this.#networks.delete(name)
    }
    for (const [name, local] of present) {
      const network = this.#networks.get(name) ?? {
        local,
        joined: new Set(),
        cache: new ServiceCache(SERVICE),
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
      const fields = { interface: local.name, family, err: error }
      this.#warnOnce(`${family} ${local.name}`, fields, 'multicast group not joined')
      return
    }
    joined.add(family)
    // Servers on the new network have not received a query yet.
    network.schedule.begin(this.#clock.monotonicMs())
  }

  #leave({ local, joined }: Network, family: Family): void {
    if (local !== undefined && joined.delete(family)) this.#sockets.get(family)?.leave(local)
  }

  /** Removes expired records and sends due queries. */
  async #update(network: Network): Promise<void> {
    const { local, cache, schedule } = network
    const now = this.#clock.monotonicMs()
    cache.expire(now)
    // A removed server may return soon, or a forged message may have removed it.
    if (cache.takeRemovals() > 0) schedule.begin(now)
    const { questions, knownAnswers } = cache.takeDueQuestions(now, schedule.takeDue(now))
    this.changed.ring()
    if (cache.refused > 0)
      this.#warnOnce('many', { refused: cache.refused }, 'announced servers over the limit ignored')
    for (const message of encodeQuery(questions, knownAnswers))
      for (const family of network.joined)
        if (local !== undefined) await this.#send(message, local, family)
  }

  async #send(message: Buffer, local: LocalInterface, family: Family): Promise<void> {
    try {
      await this.#sockets.get(family)?.send(message, local)
    } catch (error) {
      // The interface or the socket went away. The schedule repeats the query.
      this.#log.debug({ interface: local.name, family, err: error }, 'query not sent')
    }
  }

  #nextDue({ joined, cache, schedule }: Network): number {
    return Math.min(
      joined.size > 0 ? schedule.dueAt : Number.POSITIVE_INFINITY,
      cache.nextDue(this.#clock.monotonicMs()),
    )
  }

  #take(datagram: Datagram): void {
    const now = this.#clock.monotonicMs()
    const interfaces = [...this.#networks.values()].flatMap(({ local }) => local ?? [])
    const received = this.#reader.read(datagram.bytes, datagram, interfaces, now)
    if (received === undefined) return
    const { local, records, sender } = received
    this.#networks.get(local.name)?.cache.take(records, sender, now)
    this.#work.ring()
  }

  #warnOnce(key: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#warned.has(key)) return
    this.#warned.add(key)
    this.#log.warn(fields, message)
  }
}
