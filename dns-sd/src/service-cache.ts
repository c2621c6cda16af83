// The received services of some types on one network (RFC 6762, section 10; RFC 6763). Pure.
import { isIPv6 } from 'node:net'
import {
  type DnsName,
  type DnsRecord,
  isSameName,
  nameKey,
  nameText,
  type PtrRecord,
  type Question,
  type SrvRecord,
  type TxtRecord,
} from './dns-message.js'
import { HostCache } from './host-cache.js'
import { Lease } from './lease.js'
import { MAX_SERVICES, MAX_SERVICES_PER_SOURCE } from './limits.js'
import type { EndOfService, IncompleteService, Service } from './service.js'

/** A service of one network. */
export type CachedService = Omit<Service, 'interface'>
export type CachedIncompleteService = Omit<IncompleteService, 'interface'>

interface ServiceCacheLimits {
  /** @default MAX_SERVICES */
  readonly maxServices?: number
  /** @default MAX_SERVICES_PER_SOURCE */
  readonly maxServicesOfSender?: number
  /** Returns a number of [0, 1), as for {@link Lease}. @default Math.random */
  readonly random?: () => number
}

/** The times of queries for missing records, in milliseconds after a record was first missing. */
const RESOLVE_AFTER_MS = [0, 1000, 3000, 7000, 15_000]
/** The number of these queries after which a missing record counts as absent. */
const ABSENT_AFTER = 2
/** The earliest restart of these queries after another announcement, in milliseconds. */
const RESTART_MS = 1000

/** The labels of `PLC 1._opcua-tcp._tcp.local`. */
const LABELS_OF_SERVICE = 4

interface Entry<Value> {
  readonly lease: Lease
  readonly value: Value
}

/** The content of an SRV record. */
interface Location {
  readonly target: DnsName
  readonly targetKey: string
  readonly port: number
  readonly sender: string
}

interface Entries {
  readonly type: DnsName
  readonly name: DnsName
  /** The sender whose limit includes this service. */
  readonly sender: string
  pointer: Lease
  srv?: Entry<Location> | undefined
  txt?: Entry<readonly string[]> | undefined
  /**
   * Start of the period with missing records, and the number of queries. An announcement restarts
   * the period.
   */
  missing?: { readonly since: number; asked: number }
}

interface DueQuestions {
  readonly questions: readonly Question[]
  /** Known answers for a query for the type. */
  readonly knownAnswers: readonly PtrRecord[]
}

/**
 * The received services. The cache believes the sender of a record. Records of other senders that
 * contradict it have no effect while that sender answers: see {@link Lease}.
 */
export class ServiceCache {
  readonly #types: readonly DnsName[]
  readonly #limits: Required<ServiceCacheLimits>
  readonly #services = new Map<string, Entries>()
  readonly #hosts: HostCache
  readonly #countOfSender = new Map<string, number>()
  /** The number of services over the limits. */
  refused = 0
  #ends = new Map<string, EndOfService>()

  /** @param types such as `_opcua-tcp._tcp.local` */
  constructor(types: readonly DnsName[], limits: ServiceCacheLimits = {}) {
    this.#types = types
    this.#limits = {
      maxServices: MAX_SERVICES,
      maxServicesOfSender: MAX_SERVICES_PER_SOURCE,
      random: Math.random,
      ...limits,
    }
    this.#hosts = new HostCache(this.#limits.random, this.#ends)
  }

  /** Takes the records of one message; `now` in milliseconds. */
  take(records: readonly DnsRecord[], sender: string, now: number): void {
    // Records have no order: the PTR records introduce the names of the others.
    for (const record of records) if (record.type === 'PTR') this.#takePointer(record, sender, now)
    for (const record of records) {
      if (record.type === 'SRV') this.#takeSrv(record, sender, now)
      if (record.type === 'TXT') this.#takeTxt(record, sender, now)
    }
    for (const record of records)
      if (record.type === 'A' || record.type === 'AAAA') this.#hosts.take(record, sender, now)
  }

  /** Removes expired records. */
  expire(now: number): void {
    for (const [key, service] of this.#services) {
      if (service.pointer.isExpired(now)) this.#forget(key, 'expiry')
      else if (service.srv?.lease.isExpired(now)) {
        this.#moveTo(service, undefined)
        this.#ends.set(key, 'expiry')
      }
      if (service.txt?.lease.isExpired(now)) delete service.txt
    }
    this.#hosts.expire(now)
  }

  /**
   * What ended since the last call: keys of services without their PTR or SRV record, and of hosts
   * without an address.
   */
  takeEnds(): ReadonlyMap<string, EndOfService> {
    const ends = new Map(this.#ends)
    this.#ends.clear()
    return ends
  }

  /** The services with all necessary records. */
  resolved(): CachedService[] {
    const services: CachedService[] = []
    for (const { type, name, srv, txt } of this.#services.values()) {
      if (srv === undefined) continue
      const { target, targetKey, port, sender } = srv.value
      const addresses = this.#hosts.addressesOf(targetKey)
      if (addresses.length > 0)
        services.push({
          ...namesOf(type, name),
          host: nameText(target),
          port,
          txt: readTxt(txt?.value ?? []),
          addresses,
          sender,
        })
    }
    return services
  }

  /** The services whose SRV record or address has been asked for, and has not arrived. */
  incomplete(): CachedIncompleteService[] {
    return [...this.#services.values()]
      .filter((each) => this.#isUnreachable(each) && (each.missing?.asked ?? 0) >= ABSENT_AFTER)
      .map(({ type, name, sender, srv }) => {
        const host = srv === undefined ? undefined : nameText(srv.value.target)
        return { ...namesOf(type, name), sender, host }
      })
  }

  /**
   * The due queries: refreshes and missing records. The caller must send them.
   * @param browse whether to query for all services
   */
  takeDueQuestions(now: number, browse: boolean): DueQuestions {
    const questions = new Map<string, Question>()
    const ask = (name: DnsName, type: Question['type']) =>
      questions.set(`${type} ${nameKey(name)}`, { name, type })
    if (browse) for (const type of this.#types) ask(type, 'PTR')
    for (const service of this.#services.values()) {
      if (service.pointer.takeDue(now)) ask(service.type, 'PTR')
      if (service.srv?.lease.takeDue(now)) ask(service.name, 'SRV')
      if (service.txt?.lease.takeDue(now)) ask(service.name, 'TXT')
      if (this.#takeMissing(service, now)) {
        if (service.srv === undefined) ask(service.name, 'SRV')
        if (service.txt === undefined) ask(service.name, 'TXT')
        if (service.srv !== undefined && this.#isUnreachable(service)) {
          ask(service.srv.value.target, 'A')
          ask(service.srv.value.target, 'AAAA')
        }
      }
    }
    for (const { name, type } of this.#hosts.takeDueQuestions(now)) ask(name, type)
    const knownAnswers = this.#knownAnswers(now).filter(({ name }) =>
      questions.has(`PTR ${nameKey(name)}`),
    )
    return { questions: [...questions.values()], knownAnswers }
  }

  /** The next time of an expiry or a query, in milliseconds; Infinity without any. */
  nextDue(now: number): number {
    let next = Number.POSITIVE_INFINITY
    const consider = (lease: Lease | undefined) => {
      if (lease !== undefined) next = Math.min(next, lease.end, lease.dueAt)
    }
    for (const service of this.#services.values()) {
      consider(service.pointer)
      consider(service.srv?.lease)
      consider(service.txt?.lease)
      if (this.#isIncomplete(service)) next = Math.min(next, resolveAt(service) ?? now)
    }
    for (const lease of this.#hosts.leases()) consider(lease)
    return next
  }

  #takePointer({ name, ttl, target }: PtrRecord, sender: string, now: number): void {
    const type = this.#typeOf(target)
    if (type === undefined || !isSameName(name, type)) return
    const key = nameKey(target)
    const service = this.#services.get(key)
    if (service === undefined) {
      if (ttl > 0)
        this.#add(key, { type, name: target, sender, pointer: this.#lease({ ttl, sender, now }) })
      return
    }
    const pointer = { lease: service.pointer, value: undefined }
    const entry = this.#receive(pointer, undefined, { ttl, sender, now })
    if (entry === undefined) this.#forget(key, 'goodbye')
    else service.pointer = entry.lease
    if (ttl > 0 && service.missing !== undefined && service.missing.since < now - RESTART_MS)
      delete service.missing
  }

  #add(key: string, service: Entries): void {
    const { maxServices, maxServicesOfSender } = this.#limits
    const ofSender = this.countOf(service.sender)
    if (this.#services.size < maxServices && ofSender < maxServicesOfSender) {
      this.#services.set(key, service)
      this.#countOfSender.set(service.sender, ofSender + 1)
    } else this.refused++
  }

  /** A cheap filter: most names belong to no service. */
  #typeOf(name: DnsName): DnsName | undefined {
    if (name.length !== LABELS_OF_SERVICE) return undefined
    return this.#types.find((type) => isSameName(name.slice(1), type))
  }

  /** The number of services that a sender has announced. */
  countOf(sender: string): number {
    return this.#countOfSender.get(sender) ?? 0
  }

  #forget(key: string, by: EndOfService): void {
    const service = this.#services.get(key)
    if (service === undefined) return
    const { sender } = service
    this.#moveTo(service, undefined)
    this.#services.delete(key)
    this.#ends.set(key, by)
    if (this.countOf(sender) > 1) this.#countOfSender.set(sender, this.countOf(sender) - 1)
    else this.#countOfSender.delete(sender)
  }

  #takeSrv({ name, ttl, target, port }: SrvRecord, sender: string, now: number): void {
    if (this.#typeOf(name) === undefined) return
    const key = nameKey(name)
    const service = this.#services.get(key)
    if (service === undefined) return
    const { srv, pointer } = service
    const targetKey = nameKey(target)
    const isSame = srv?.value.targetKey === targetKey && srv.value.port === port
    const staysSender = srv !== undefined && isSame && (isIPv6(sender) || !isIPv6(srv.value.sender))
    const value: Location = {
      target,
      targetKey,
      port,
      sender: staysSender ? srv.value.sender : sender,
    }
    const entry = this.#receive(srv, value, { ttl, sender, now, isSame })
    // The service ended, with or without a withdrawn PTR record.
    if (entry === undefined && pointer.mayChange(sender)) this.#forget(key, 'goodbye')
    else {
      this.#moveTo(service, entry)
      if (entry === undefined) this.#ends.set(key, 'goodbye')
    }
  }

  #takeTxt({ name, ttl, strings }: TxtRecord, sender: string, now: number): void {
    const service = this.#typeOf(name) ? this.#services.get(nameKey(name)) : undefined
    if (service === undefined) return
    const previous = service.txt?.value
    const isSame =
      previous?.length === strings.length &&
      strings.every((string, index) => string === previous[index])
    service.txt = this.#receive(service.txt, strings, { ttl, sender, now, isSame })
  }

  /** The valid entry after a record arrived: the new record, or the previous one. */
  #receive<Value>(
    previous: Entry<Value> | undefined,
    value: Value,
    { isSame = true, ...received }: Received,
  ): Entry<Value> | undefined {
    const { ttl, sender, now } = received
    if (previous === undefined || previous.lease.mayChange(sender))
      return ttl === 0 ? undefined : { lease: this.#lease(received), value }
    if (ttl === 0 || !isSame) return previous
    previous.lease.confirm(ttl, now)
    return { lease: previous.lease, value }
  }

  #moveTo(service: Entries, srv: Entry<Location> | undefined): void {
    const [before, after] = [service.srv?.value.targetKey, srv?.value.targetKey]
    service.srv = srv
    if (before === after) return
    if (srv !== undefined) this.#hosts.use(srv.value.targetKey, srv.value.target)
    if (before !== undefined) this.#hosts.release(before)
  }

  #isUnreachable({ srv }: Entries): boolean {
    return srv === undefined || !this.#hosts.hasAddress(srv.value.targetKey)
  }

  #isIncomplete(service: Entries): boolean {
    return service.txt === undefined || this.#isUnreachable(service)
  }

  #takeMissing(service: Entries, now: number): boolean {
    if (!this.#isIncomplete(service)) {
      delete service.missing
      return false
    }
    service.missing ??= { since: now, asked: 0 }
    if ((resolveAt(service) ?? now) > now) return false
    service.missing.asked++
    return true
  }

  #lease({ ttl, sender, now }: Received): Lease {
    return new Lease({ ttl, sender, now, random: this.#limits.random })
  }

  /**
   * Services without addresses are not listed as known: their senders answer with the addresses.
   */
  #knownAnswers(now: number): PtrRecord[] {
    return [...this.#services.values()]
      .filter((service) => service.pointer.isKnown(now) && !this.#isUnreachable(service))
      .map(({ type, name, pointer }) => {
        const ttl = Math.round((pointer.end - now) / 1000)
        return { type: 'PTR', name: type, target: name, ttl, flush: false }
      })
  }
}

interface Received {
  readonly ttl: number
  readonly sender: string
  readonly now: number
  /** Whether the record repeats the known one. @default true */
  readonly isSame?: boolean
}

/** The time of the next query for missing records; undefined before the first check. */
function resolveAt({ missing }: Entries): number | undefined {
  if (missing === undefined) return undefined
  return missing.since + (RESOLVE_AFTER_MS[missing.asked] ?? Number.POSITIVE_INFINITY)
}

function namesOf(type: DnsName, name: DnsName): Pick<Service, 'type' | 'name'> {
  return { type: type.slice(0, 2).join('.'), name: name[0] ?? '' }
}

/** RFC 6763, section 6.4: keys ignore case, and the first value of a key counts. */
function readTxt(strings: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  for (const string of strings) {
    const [, key, value] = /^([\x20-\x3c\x3e-\x7e]+)(?:=(.*))?$/s.exec(string) ?? []
    if (key !== undefined && !values.has(key.toLowerCase()))
      values.set(key.toLowerCase(), value ?? '')
  }
  return values
}
