import { isDeepStrictEqual } from 'node:util'
import { type Clock, Latest, type Logger, systemClock } from '@akrijs/sdk'
import {
  AllowedNetworks,
  type Datagram,
  type MulticastSearch,
  type Network,
  ProblemLog,
  type SearchPlace,
  type UdpSocket,
} from '@akrijs/sdk/network'
import { encodeQuery } from './dns-encoder.js'
import { type DnsName, nameKey, withoutCase } from './dns-message.js'
import { MessageReader } from './message-reader.js'
import {
  type Family,
  MDNS_GROUPS,
  MDNS_PORT,
  openMulticastSocket,
  socketInterface,
} from './multicast-socket.js'
import { type LocalInterface, localInterfaces } from './networks.js'
import { QuestionSchedule } from './question-schedule.js'
import { type EndOfService, SERVICE_TYPE, type Service, type ServiceList } from './service.js'
import { ServiceCache } from './service-cache.js'

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
  /** Names of the interfaces to use. @default all but the loopback interface */
  readonly interfaces?: readonly string[]
}

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
 * Browses for services by multicast DNS on all networks of this machine. Yields a complete list
 * after {@link FIRST_LIST_MS}, and then each changed list: after an announcement or a goodbye
 * within {@link GATHER_MS}, and after the expiry of a silent service (usually 120 s).
 * Ends with its signal.
 * @param types such as `_http._tcp`: see {@link SERVICE_TYPE}
 * @throws TypeError if a text is not the type of a service
 *
 * @example
 * for await (const { services, ended } of browse(['_ipp._tcp'], { log, signal })) {
 *   for (const { name, host, port, txt } of services) console.log(name, host, port, txt.get('ty'))
 *   for (const { service, by } of ended) console.log(service.name, by)
 * }
 */
export async function* browse(
  types: readonly string[],
  options: BrowseOptions,
): AsyncGenerator<ServiceList, void, void> {
  const { clock = systemClock, signal } = options
  const done = new AbortController()
  const until = AbortSignal.any([signal, done.signal])
  const browser = new Browser(types.map(nameOfType), { ...options, clock })
  const running = browser.run(until).finally(() => done.abort())
  // The failure is thrown below.
  running.catch(() => undefined)
  try {
    let previous: ServiceList | undefined
    for await (const _ of browser.changes) {
      const waitMs = previous === undefined ? FIRST_LIST_MS : GATHER_MS
      await clock.sleep(waitMs, until).catch(() => undefined)
      if (until.aborted) return
      const current = browser.listAfter(previous)
      const { services, incomplete } = current
      if (!isDeepStrictEqual([services, incomplete], [previous?.services, previous?.incomplete]))
        yield current
      previous = current
    }
  } finally {
    done.abort()
    await running
  }
}

function nameOfType(type: string): DnsName {
  if (!SERVICE_TYPE.test(type))
    throw new TypeError(`${JSON.stringify(type)} is not a service type such as _http._tcp`)
  return [...type.split('.'), 'local']
}

/** An interface and its received records, which stay valid for their time without the interface. */
interface BrowsedNetwork {
  local: LocalInterface | undefined
  readonly joined: Set<Family>
  readonly cache: ServiceCache
  readonly schedule: QuestionSchedule
  /** What ended since the last list, as {@link ServiceCache.takeEnds} tells it. */
  readonly ends: Map<string, EndOfService>
}

class Browser {
  readonly #types: readonly DnsName[]
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
  /** Has a value when the services may have changed. */
  readonly changes = new Latest<void>()

  constructor(types: readonly DnsName[], options: BrowseOptions & { readonly clock: Clock }) {
    const { clock, log, allowedNetworks, search, interfaces } = options
    this.#types = types
    this.#clock = clock
    this.#log = log
    this.#problems = new ProblemLog(log)
    this.#search = search
    this.#only = interfaces
    this.#reader = new MessageReader({
      types,
      allowed: allowedNetworks && new AllowedNetworks(allowedNetworks),
      servicesOf: (sender) =>
        Math.max(0, ...[...this.#networks.values()].map(({ cache }) => cache.countOf(sender))),
      onFlood: (sender) =>
        this.#problems.report('flood', { sender }, 'multicast messages over the limit dropped'),
      onStranger: (sender) => search?.ignored(sender),
    })
  }

  /** @param previous the list before this one */
  listAfter(previous: ServiceList | undefined): ServiceList {
    const networks = [...this.#networks].sort(([a], [b]) => (a < b ? -1 : 1))
    const within = <S extends { readonly type: string; readonly name: string }>(
      ofCache: (cache: ServiceCache) => S[],
    ) =>
      networks.flatMap(([name, { cache }]) =>
        ofCache(cache)
          .sort((a, b) => (`${a.type} ${a.name}` < `${b.type} ${b.name}` ? -1 : 1))
          .map((service) => ({ ...service, interface: name })),
      )
    const services = within((cache) => cache.resolved())
    const incomplete = within((cache) => cache.incomplete())
    const present = new Set(services.map(keyOf))
    const ended = (previous?.services ?? [])
      .filter((service) => !present.has(keyOf(service)))
      .map((service) => ({ service, by: this.#endOf(service) }))
    for (const [, { ends }] of networks) ends.clear()
    return { services, incomplete, ended }
  }

  #endOf({ type, name, host, interface: network }: Service): EndOfService {
    const ends = this.#networks.get(network)?.ends
    const key = nameKey([name, ...type.split('.'), 'local'])
    return ends?.get(key) ?? ends?.get(withoutCase(host)) ?? 'expiry'
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
        cache: new ServiceCache(this.#types),
        schedule: new QuestionSchedule(),
        ends: new Map(),
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
    // Services on the new network have not received a query yet.
    network.schedule.begin(this.#clock.monotonicMs())
  }

  /** Removes expired records and sends due queries. */
  async #update(network: BrowsedNetwork): Promise<void> {
    const { local, cache, schedule } = network
    const now = this.#clock.monotonicMs()
    cache.expire(now)
    const ends = cache.takeEnds()
    for (const [key, by] of ends) network.ends.set(key, by)
    // A removed service may return soon, or a forged message may have removed it.
    if (ends.size > 0) schedule.begin(now)
    const { questions, knownAnswers } = cache.takeDueQuestions(now, schedule.takeDue(now))
    this.changes.push()
    if (cache.refused > 0)
      this.#problems.report(
        'many',
        { refused: cache.refused },
        'announced services over the limit ignored',
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

function keyOf({ interface: network, type, name }: Service): string {
  return `${network} ${type} ${name}`
}

function placeOf({ name, ipv4 }: LocalInterface, family: Family): SearchPlace {
  return { interface: name, address: family === 'IPv4' && ipv4 !== undefined ? ipv4 : 'IPv6' }
}
