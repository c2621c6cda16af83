import {
  encodeQuery,
  type Family,
  type LocalInterface,
  localInterfaces,
  MDNS_GROUPS,
  MDNS_PORT,
  MessageReader,
  openMulticastSocket,
  QuestionSchedule,
  ServiceCache,
  socketInterface,
} from '@akrijs/dns-sd'
import { type Clock, Latest, type Logger, type ReportedDevice, systemClock } from '@akrijs/sdk'
import {
  AllowedNetworks,
  type Datagram,
  type MulticastSearch,
  type Network,
  ProblemLog,
  type SearchPlace,
  type UdpSocket,
} from '@akrijs/sdk/network'
import { type MdnsServer, mdnsServer, mergeServers, unusableServer } from './mdns-server.js'

export interface BrowseOptions {
  readonly log: Logger
  readonly signal: AbortSignal
  /** @default systemClock */
  readonly clock?: Clock
  /**
   * The networks of acceptable addresses: a sender could announce any address. This machine and
   * the metadata services of clouds are acceptable only if named.
   * @default the networks of the interface that received the announcement
   */
  readonly allowedNetworks?: readonly Network[] | undefined
  /** Gets where queries were sent, and the errors. */
  readonly search?: MulticastSearch
  /** Takes the announced servers without a usable URL before each list. */
  readonly onUnusable?: (servers: readonly ReportedDevice[]) => void
}

const SERVICE = ['_opcua-tcp', '_tcp', 'local']
const FAMILIES = ['IPv4', 'IPv6'] as const

/** The first list waits for the answers to three queries: a partial list would remove Instances. */
export const FIRST_LIST_MS = 3500
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
  const { clock = systemClock, signal, onUnusable } = options
  const done = new AbortController()
  const until = AbortSignal.any([signal, done.signal])
  const browser = new Browser({ ...options, clock }, interfaces)
  const running = browser.run(until).finally(() => done.abort())
  // The failure is thrown below.
  running.catch(() => undefined)
  try {
    let previous: string | undefined
    for await (const _ of browser.changes) {
      const waitMs = previous === undefined ? FIRST_LIST_MS : GATHER_MS
      await clock.sleep(waitMs, until).catch(() => undefined)
      if (until.aborted) return
      const { servers, unusable } = browser.result()
      const current = JSON.stringify([servers, unusable])
      onUnusable?.(unusable)
      if (current !== previous) yield servers
      previous = current
    }
  } finally {
    done.abort()
    await running
  }
}

/** An interface and its received records, which stay valid for their time without the interface. */
interface BrowsedNetwork {
  local: LocalInterface | undefined
  readonly joined: Set<Family>
  readonly cache: ServiceCache
  readonly schedule: QuestionSchedule
}

class Browser {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #problems: ProblemLog
  readonly #search: MulticastSearch | undefined
  readonly #only: readonly string[] | undefined
  readonly #reader: MessageReader
  readonly #networks = new Map<string, BrowsedNetwork>()
  readonly #sockets = new Map<Family, UdpSocket>()
  readonly #reopenAt = new Map<Family, number>()
  /** Ends the wait for the next work. */
  #wake = new AbortController()
  /** Has a value when the servers may have changed. */
  readonly changes = new Latest<void>()

  constructor(
    { clock, log, allowedNetworks, search }: BrowseOptions & { readonly clock: Clock },
    interfaces: readonly string[] | undefined,
  ) {
    this.#clock = clock
    this.#log = log
    this.#problems = new ProblemLog(log)
    this.#search = search
    this.#only = interfaces
    this.#reader = new MessageReader({
      type: SERVICE,
      allowed: allowedNetworks && new AllowedNetworks(allowedNetworks),
      servicesOf: (sender) =>
        Math.max(0, ...[...this.#networks.values()].map(({ cache }) => cache.countOf(sender))),
      onFlood: (sender) =>
        this.#problems.report('flood', { sender }, 'multicast messages over the limit dropped'),
      onStranger: (sender) => search?.ignored(sender),
    })
  }

  result(): { readonly servers: MdnsServer[]; readonly unusable: ReportedDevice[] } {
    const caches = [...this.#networks.values()].map(({ cache }) => cache)
    const services = caches.flatMap((cache) => cache.resolved())
    const unusable = [
      ...caches.flatMap((cache) => cache.unreachable()),
      ...services.filter((service) => mdnsServer(service) === undefined),
    ].map(unusableServer)
    return {
      servers: mergeServers(services.map(mdnsServer).filter((server) => server !== undefined)),
      unusable: unusable.sort((a, b) => (a.id < b.id ? -1 : 1)),
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    // The first list comes even if there is no network.
    this.changes.push()
    try {
      for (let interfacesAt = 0; !signal.aborted; ) {
        this.#wake = new AbortController()
        await this.#openSockets()
        if (interfacesAt <= this.#clock.monotonicMs()) {
          this.#readInterfaces()
          interfacesAt = this.#clock.monotonicMs() + INTERFACES_MS
        }
        for (const network of this.#networks.values()) await this.#update(network)
        const networks = [...this.#networks.values()]
        const next = Math.min(interfacesAt, ...networks.map((network) => this.#nextDue(network)))
        const ms = Math.max(0, next - this.#clock.monotonicMs())
        await this.#clock.sleep(ms, this.#wake.signal).catch(() => undefined)
        await this.#clock.sleep(REST_MS, signal).catch(() => undefined)
      }
    } finally {
      this.changes.end()
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
        this.#sockets.set(family, await openMulticastSocket(family, { onDatagram, onBroken }))
        this.#problems.resolve(family)
        this.#search?.forget(MDNS_GROUPS[family])
        for (const network of this.#networks.values()) this.#join(network, family)
      } catch (error) {
        const fields = { family, port: MDNS_PORT, err: error }
        this.#search?.failed({ to: MDNS_GROUPS[family] }, error)
        this.#problems.report(family, fields, 'multicast DNS port not opened')
      }
    }
  }

  #removeSocket(family: Family): void {
    this.#sockets.delete(family)
    for (const { joined } of this.#networks.values()) joined.delete(family)
    this.#wake.abort()
  }

  #readInterfaces(): void {
    const present = new Map(localInterfaces(this.#only).map((local) => [local.name, local]))
    this.#search?.keep(
      [...present.values()].flatMap((local) => FAMILIES.map((family) => placeOf(local, family))),
    )
    for (const [name, network] of this.#networks) {
      const local = present.get(name)
      for (const family of FAMILIES) {
        const before = network.local && socketInterface(family, network.local)
        const after = local && socketInterface(family, local)
        if (before !== undefined && before !== after && network.joined.delete(family))
          this.#sockets.get(family)?.leave(MDNS_GROUPS[family], before)
      }
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

  #join(network: BrowsedNetwork, family: Family): void {
    const { local, joined } = network
    const socket = this.#sockets.get(family)
    const via = local && socketInterface(family, local)
    if (local === undefined || via === undefined || socket === undefined) return
    try {
      const isNew = socket.join(MDNS_GROUPS[family], via)
      if (!isNew && joined.has(family)) return
    } catch (error) {
      const fields = { interface: local.name, family, err: error }
      this.#search?.failed(placeOf(local, family), error)
      this.#problems.report(`${family} ${local.name}`, fields, 'multicast group not joined')
      return
    }
    joined.add(family)
    // Servers on the new network have not received a query yet.
    network.schedule.begin(this.#clock.monotonicMs())
  }

  /** Removes expired records and sends due queries. */
  async #update(network: BrowsedNetwork): Promise<void> {
    const { local, cache, schedule } = network
    const now = this.#clock.monotonicMs()
    cache.expire(now)
    // A removed server may return soon, or a forged message may have removed it.
    if (cache.takeRemovals() > 0) schedule.begin(now)
    const { questions, knownAnswers } = cache.takeDueQuestions(now, schedule.takeDue(now))
    this.changes.push()
    if (cache.refused > 0)
      this.#problems.report(
        'many',
        { refused: cache.refused },
        'announced servers over the limit ignored',
      )
    for (const message of encodeQuery(questions, knownAnswers))
      for (const family of network.joined)
        if (local !== undefined) await this.#send(message, local, family)
  }

  async #send(message: Buffer, local: LocalInterface, family: Family): Promise<void> {
    const group = family === 'IPv6' ? `${MDNS_GROUPS.IPv6}%${local.name}` : MDNS_GROUPS.IPv4
    try {
      // Each message is awaited: the socket has one interface for multicast at a time.
      const socket = this.#sockets.get(family)
      if (socket === undefined) return
      await socket.send(message, MDNS_PORT, group, socketInterface(family, local))
      this.#search?.sent(placeOf(local, family))
    } catch (error) {
      // The interface or the socket went away. The schedule repeats the query.
      this.#search?.failed(placeOf(local, family), error)
      this.#log.debug({ interface: local.name, family, err: error }, 'query not sent')
    }
  }

  #nextDue({ joined, cache, schedule }: BrowsedNetwork): number {
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
    this.#wake.abort()
  }
}

function placeOf({ name, ipv4 }: LocalInterface, family: Family): SearchPlace {
  return { interface: name, address: family === 'IPv4' && ipv4 !== undefined ? ipv4 : 'IPv6' }
}
