// What has been heard of services of one type on one network (RFC 6762, section 10; RFC 6763). Without any I/O.
import { isIPv6 } from 'node:net'
import { type AddressRecord, type DnsName, type DnsRecord, nameKey, type PtrRecord, type Question } from './dns-message.js'

/** A service of which enough is known to reach it. */
export interface ResolvedService {
  readonly name: DnsName
  /** The host that it is on, and its port. */
  readonly target: DnsName
  readonly port: number
  /** `key=value`, `key` or empty, as they were sent. */
  readonly text: readonly string[]
  /** At least one; sorted. */
  readonly addresses: readonly string[]
  /** Who said where it is, by IPv4 if anybody did. */
  readonly sender: string
}

export interface ServiceCacheOptions {
  /** The type of the services, `_opcua-tcp._tcp.local`. */
  readonly type: DnsName
  /** How many services are remembered. @default 1000 */
  readonly maxServices?: number
  /** How many services are remembered that one sender told of. @default 200 */
  readonly maxServicesOfSender?: number
  /** Of [0, 1): so that not all of a network ask at once. @default Math.random */
  readonly random?: () => number
}

/** Whatever a record says, it is asked for again after so long, in milliseconds. */
const MAX_TTL_MS = 2 * 60 * 60 * 1000
/** Records that are true for less are not asked for before they run out, in milliseconds. */
const MIN_REFRESHED_TTL_MS = 10_000
/** RFC 6762, section 5.2: when a record is asked for again, in parts of its time to live. */
const REFRESH_AT = [0.8, 0.85, 0.9, 0.95]
/** The same: by so much later, in parts of the time to live. */
const REFRESH_SPREAD = 0.02
/** RFC 6762, section 10.2: records that are younger belong to the same announcement, in milliseconds. */
const SAME_ANNOUNCEMENT_MS = 1000
/** When what is missing of a service is asked for, in milliseconds after it was first missing. */
const RESOLVE_AFTER_MS = [0, 1000, 3000, 7000, 15_000]
const MAX_ADDRESSES = 16

/** What is true until a time; in milliseconds. */
interface Lease {
  readonly from: number
  readonly ttl: number
  /** In parts of the time to live. */
  readonly spread: number
  /** How often it was asked for again. */
  asked: number
}

interface Service {
  readonly name: DnsName
  readonly sender: string
  pointer: Lease
  srv?: Lease & { readonly target: DnsName; readonly port: number; readonly sender: string }
  txt?: Lease & { readonly strings: readonly string[] }
  /** Since when something is missing, and how often it was asked for; begins anew when the service is named again. */
  missing?: { readonly since: number; asked: number }
}

interface Host {
  readonly name: DnsName
  readonly addresses: Map<string, Lease & { readonly type: AddressRecord['type'] }>
}

export interface DueQuestions {
  readonly questions: readonly Question[]
  /** Answers to a question for the type that need not be given again. */
  readonly known: readonly PtrRecord[]
}

export class ServiceCache {
  readonly #type: DnsName
  readonly #typeKey: string
  readonly #maxServices: number
  readonly #maxServicesOfSender: number
  readonly #random: () => number
  readonly #services = new Map<string, Service>()
  readonly #hosts = new Map<string, Host>()
  readonly #countOfSender = new Map<string, number>()
  /** How many services were not remembered because there were too many. */
  refused = 0

  constructor({ type, maxServices = 1000, maxServicesOfSender = 200, random = Math.random }: ServiceCacheOptions) {
    this.#type = type
    this.#typeKey = nameKey(type)
    this.#maxServices = maxServices
    this.#maxServicesOfSender = maxServicesOfSender
    this.#random = random
  }

  /** Takes the records of one message of a sender; `now` in milliseconds. */
  take(records: readonly DnsRecord[], sender: string, now: number): void {
    // A message has its records in any order: names first, then what is said of them.
    for (const record of records) if (record.type === 'PTR') this.#takePointer(record, sender, now)
    for (const record of records) {
      if (record.type === 'SRV' || record.type === 'TXT') this.#takeService(record, sender, now)
    }
    this.#forgetUnusedHosts()
    const addresses = records.filter(isAddress)
    this.#flushHosts(addresses, now)
    for (const record of addresses) this.#takeAddress(record, now)
  }

  /** Forgets what is no longer true. */
  expire(now: number): void {
    for (const [key, service] of this.#services) {
      if (isOver(service.pointer, now)) this.#forget(key)
      if (service.srv !== undefined && isOver(service.srv, now)) delete service.srv
      if (service.txt !== undefined && isOver(service.txt, now)) delete service.txt
    }
    this.#forgetUnusedHosts()
    for (const { addresses } of this.#hosts.values())
      for (const [address, lease] of addresses) if (isOver(lease, now)) addresses.delete(address)
  }

  /** Services that can be reached. */
  resolved(): ResolvedService[] {
    const services: ResolvedService[] = []
    for (const { name, srv, txt } of this.#services.values()) {
      const addresses = srv === undefined ? [] : [...(this.#hosts.get(nameKey(srv.target))?.addresses.keys() ?? [])]
      if (srv === undefined || addresses.length === 0) continue
      const { target, port, sender } = srv
      services.push({ name, target, port, text: txt?.strings ?? [], addresses: addresses.sort(), sender })
    }
    return services
  }

  /**
   * What to ask now: for what is about to run out, and for what is missing. It counts as asked.
   * @param browse whether it is time to ask who is there at all
   */
  takeDueQuestions(now: number, browse: boolean): DueQuestions {
    const questions = new Map<string, Question>()
    const ask = (name: DnsName, type: Question['type']) => questions.set(`${type} ${nameKey(name)}`, { name, type })
    if (browse) ask(this.#type, 'PTR')
    for (const service of this.#services.values()) {
      if (this.#takeDue(service.pointer, now)) ask(this.#type, 'PTR')
      if (service.srv !== undefined && this.#takeDue(service.srv, now)) ask(service.name, 'SRV')
      if (service.txt !== undefined && this.#takeDue(service.txt, now)) ask(service.name, 'TXT')
      if (this.#takeMissing(service, now)) {
        if (service.srv === undefined) ask(service.name, 'SRV')
        if (service.txt === undefined) ask(service.name, 'TXT')
        if (service.srv !== undefined && this.#isUnreachable(service)) {
          ask(service.srv.target, 'A')
          ask(service.srv.target, 'AAAA')
        }
      }
    }
    for (const { name, addresses } of this.#hosts.values())
      for (const lease of addresses.values()) if (this.#takeDue(lease, now)) ask(name, lease.type)
    const asksForType = questions.has(`PTR ${this.#typeKey}`)
    return { questions: [...questions.values()], known: asksForType ? this.#known(now) : [] }
  }

  /** When something runs out or is to be asked for, in milliseconds; Infinity where nothing is. */
  nextDue(now: number): number {
    let next = Number.POSITIVE_INFINITY
    const consider = (lease: Lease | undefined) => {
      if (lease !== undefined) next = Math.min(next, endOf(lease), dueAt(lease))
    }
    for (const service of this.#services.values()) {
      consider(service.pointer)
      consider(service.srv)
      consider(service.txt)
      if (this.#isIncomplete(service)) next = Math.min(next, resolveAt(service) ?? now)
    }
    for (const { addresses } of this.#hosts.values()) for (const lease of addresses.values()) consider(lease)
    return next
  }

  #takePointer({ name, ttl, target }: PtrRecord, sender: string, now: number): void {
    if (nameKey(name) !== this.#typeKey || nameKey(target.slice(1)) !== this.#typeKey) return
    const key = nameKey(target)
    const known = this.#services.get(key)
    if (ttl === 0) this.#forget(key)
    else if (known !== undefined) {
      known.pointer = this.#lease(ttl, now)
      delete known.missing
    } else if (this.#services.size < this.#maxServices && this.#countOf(sender) < this.#maxServicesOfSender) {
      this.#services.set(key, { name: target, sender, pointer: this.#lease(ttl, now) })
      this.#countOfSender.set(sender, this.#countOf(sender) + 1)
    } else this.refused++
  }

  #countOf(sender: string): number {
    return this.#countOfSender.get(sender) ?? 0
  }

  #forget(key: string): void {
    const sender = this.#services.get(key)?.sender
    if (sender === undefined) return
    this.#services.delete(key)
    if (this.#countOf(sender) > 1) this.#countOfSender.set(sender, this.#countOf(sender) - 1)
    else this.#countOfSender.delete(sender)
  }

  #takeService(record: DnsRecord & { type: 'SRV' | 'TXT' }, sender: string, now: number): void {
    const service = this.#services.get(nameKey(record.name))
    if (service === undefined) return
    const lease = this.#lease(record.ttl, now)
    if (record.type === 'TXT') {
      if (record.ttl === 0) delete service.txt
      else service.txt = { ...lease, strings: record.strings }
    } else if (record.ttl === 0) {
      // Nothing listens there any more, whether or not the name is taken back too.
      this.#forget(nameKey(record.name))
    } else {
      const said = service.srv !== undefined && isIPv6(sender) ? service.srv.sender : sender
      service.srv = { ...lease, target: record.target, port: record.port, sender: said }
    }
  }

  #takeAddress(record: AddressRecord, now: number): void {
    const key = nameKey(record.name)
    const host = this.#hosts.get(key)
    if (record.ttl === 0) host?.addresses.delete(record.address)
    else if (host !== undefined && (host.addresses.size < MAX_ADDRESSES || host.addresses.has(record.address)))
      host.addresses.set(record.address, { ...this.#lease(record.ttl, now), type: record.type })
  }

  /** An announcement of addresses takes the place of older ones. */
  #flushHosts(records: readonly AddressRecord[], now: number): void {
    for (const { name, type, flush } of records) {
      const host = flush ? this.#hosts.get(nameKey(name)) : undefined
      for (const [address, lease] of host?.addresses ?? [])
        if (lease.type === type && lease.from < now - SAME_ANNOUNCEMENT_MS) host?.addresses.delete(address)
    }
  }

  /** Keeps a host for each service, and no others: so nobody fills the memory with hosts. */
  #forgetUnusedHosts(): void {
    const wanted = new Map<string, DnsName>()
    for (const { srv } of this.#services.values()) if (srv !== undefined) wanted.set(nameKey(srv.target), srv.target)
    for (const key of this.#hosts.keys()) if (!wanted.has(key)) this.#hosts.delete(key)
    for (const [key, name] of wanted) if (!this.#hosts.has(key)) this.#hosts.set(key, { name, addresses: new Map() })
  }

  #isUnreachable({ srv }: Service): boolean {
    return srv === undefined || (this.#hosts.get(nameKey(srv.target))?.addresses.size ?? 0) === 0
  }

  #isIncomplete(service: Service): boolean {
    return service.txt === undefined || this.#isUnreachable(service)
  }

  #takeMissing(service: Service, now: number): boolean {
    if (!this.#isIncomplete(service)) {
      delete service.missing
      return false
    }
    service.missing ??= { since: now, asked: 0 }
    if ((resolveAt(service) ?? now) > now) return false
    service.missing.asked++
    return true
  }

  #takeDue(lease: Lease, now: number): boolean {
    if (dueAt(lease) > now) return false
    // What was missed meanwhile is not made up for.
    while (dueAt(lease) <= now) lease.asked++
    return true
  }

  #lease(ttlSeconds: number, now: number): Lease {
    return { from: now, ttl: Math.min(ttlSeconds * 1000, MAX_TTL_MS), spread: this.#random() * REFRESH_SPREAD, asked: 0 }
  }

  #known(now: number): PtrRecord[] {
    return [...this.#services.values()]
      .filter(({ pointer }) => endOf(pointer) - now > pointer.ttl / 2)
      .map(({ name, pointer }) => {
        const ttl = Math.round((endOf(pointer) - now) / 1000)
        return { type: 'PTR', name: this.#type, target: name, ttl, flush: false }
      })
  }
}

function isAddress(record: DnsRecord): record is AddressRecord {
  return record.type === 'A' || record.type === 'AAAA'
}

function endOf({ from, ttl }: Lease): number {
  return from + ttl
}

function isOver(lease: Lease, now: number): boolean {
  return endOf(lease) <= now
}

function dueAt({ from, ttl, spread, asked }: Lease): number {
  const part = ttl < MIN_REFRESHED_TTL_MS ? undefined : REFRESH_AT[asked]
  return part === undefined ? Number.POSITIVE_INFINITY : from + ttl * (part + spread)
}

/** When to ask for what is missing of a service: undefined where nobody has looked yet. */
function resolveAt({ missing }: Service): number | undefined {
  if (missing === undefined) return undefined
  return missing.since + (RESOLVE_AFTER_MS[missing.asked] ?? Number.POSITIVE_INFINITY)
}
