// What has been heard of services of one type on one network (RFC 6762, section 10; RFC 6763). Without any I/O.
import { isIPv6 } from 'node:net'
import {
  type DnsName,
  type DnsRecord,
  isSameName,
  nameKey,
  type PtrRecord,
  type Question,
  type SrvRecord,
  type TxtRecord,
} from './dns-message.js'
import { HostCache } from './host-cache.js'
import { Lease } from './lease.js'

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

/** When what is missing of a service is asked for, in milliseconds after it was first missing. */
const RESOLVE_AFTER_MS = [0, 1000, 3000, 7000, 15_000]
/** How soon that begins anew when the service is named again, in milliseconds after it began. */
const ASK_ANEW_MS = 1000

interface Said<Value> {
  readonly lease: Lease
  readonly value: Value
}

/** Where a service is. */
interface Place {
  readonly target: DnsName
  readonly targetKey: string
  readonly port: number
  readonly sender: string
}

interface Service {
  readonly name: DnsName
  /** Whom it counts for. */
  readonly sender: string
  pointer: Lease
  srv?: Said<Place> | undefined
  txt?: Said<readonly string[]> | undefined
  /** Since when something is missing, and how often it was asked for; begins anew when the service is named again. */
  missing?: { readonly since: number; asked: number }
}

export interface DueQuestions {
  readonly questions: readonly Question[]
  /** Answers to a question for the type that need not be given again. */
  readonly known: readonly PtrRecord[]
}

/**
 * What was heard of services. Who has announced something is believed about it; what others say otherwise makes it asked for
 * again, and counts when nobody answers: see {@link Lease}.
 */
export class ServiceCache {
  readonly #type: DnsName
  readonly #typeKey: string
  readonly #maxServices: number
  readonly #maxServicesOfSender: number
  readonly #random: () => number
  readonly #services = new Map<string, Service>()
  readonly #hosts: HostCache
  readonly #countOfSender = new Map<string, number>()
  /** How many services were not remembered because there were too many. */
  refused = 0
  #removals = 0

  constructor({
    type,
    maxServices = 1000,
    maxServicesOfSender = 200,
    random = Math.random,
  }: ServiceCacheOptions) {
    this.#type = type
    this.#typeKey = nameKey(type)
    this.#maxServices = maxServices
    this.#maxServicesOfSender = maxServicesOfSender
    this.#random = random
    this.#hosts = new HostCache(random)
  }

  /** Takes the records of one message of a sender; `now` in milliseconds. */
  take(records: readonly DnsRecord[], sender: string, now: number): void {
    // A message has its records in any order: names first, then what is said of them.
    for (const record of records) if (record.type === 'PTR') this.#takePointer(record, sender, now)
    for (const record of records) {
      if (record.type === 'SRV') this.#takePlace(record, sender, now)
      if (record.type === 'TXT') this.#takeText(record, sender, now)
    }
    for (const record of records)
      if (record.type === 'A' || record.type === 'AAAA') this.#hosts.take(record, sender, now)
  }

  /** Forgets what is no longer true. */
  expire(now: number): void {
    for (const [key, service] of this.#services) {
      if (service.pointer.isOver(now)) this.#forget(key)
      else if (service.srv?.lease.isOver(now)) this.#moveTo(service, undefined)
      if (service.txt?.lease.isOver(now)) delete service.txt
    }
    this.#hosts.expire(now)
  }

  /** How often a service, its place or its last address was forgotten since this was asked. */
  takeRemovals(): number {
    const removals = this.#removals + this.#hosts.takeRemovals()
    this.#removals = 0
    return removals
  }

  /** Services that can be reached. */
  resolved(): ResolvedService[] {
    const services: ResolvedService[] = []
    for (const { name, srv, txt } of this.#services.values()) {
      if (srv === undefined) continue
      const { target, targetKey, port, sender } = srv.value
      const addresses = this.#hosts.addressesOf(targetKey)
      if (addresses.length > 0)
        services.push({ name, target, port, text: txt?.value ?? [], addresses, sender })
    }
    return services
  }

  /**
   * What to ask now: for what is about to run out, for what is in doubt, and for what is missing. It counts as asked.
   * @param browse whether it is time to ask who is there at all
   */
  takeDueQuestions(now: number, browse: boolean): DueQuestions {
    const questions = new Map<string, Question>()
    const ask = (name: DnsName, type: Question['type']) =>
      questions.set(`${type} ${nameKey(name)}`, { name, type })
    if (browse) ask(this.#type, 'PTR')
    for (const service of this.#services.values()) {
      if (service.pointer.takeDue(now)) ask(this.#type, 'PTR')
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
    const asksForType = questions.has(`PTR ${this.#typeKey}`)
    return { questions: [...questions.values()], known: asksForType ? this.#known(now) : [] }
  }

  /** When something runs out or is to be asked for, in milliseconds; Infinity where nothing is. */
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
    if (!this.#isOfService(target) || !isSameName(name, this.#type)) return
    const key = nameKey(target)
    const known = this.#services.get(key)
    if (known === undefined) {
      if (ttl > 0)
        this.#remember(key, { name: target, sender, pointer: this.#lease({ ttl, sender, now }) })
      return
    }
    const said = this.#hear({ lease: known.pointer, value: undefined }, undefined, {
      ttl,
      sender,
      now,
    })
    if (said === undefined) this.#forget(key)
    else known.pointer = said.lease
    if (ttl > 0 && known.missing !== undefined && known.missing.since < now - ASK_ANEW_MS)
      delete known.missing
  }

  #remember(key: string, service: Service): void {
    const ofSender = this.#countOf(service.sender)
    if (this.#services.size < this.#maxServices && ofSender < this.#maxServicesOfSender) {
      this.#services.set(key, service)
      this.#countOfSender.set(service.sender, ofSender + 1)
    } else this.refused++
  }

  /** Cheaper than a look at the services, of which most names are none. */
  #isOfService(name: DnsName): boolean {
    return name.length === this.#type.length + 1 && isSameName(name.slice(1), this.#type)
  }

  #countOf(sender: string): number {
    return this.#countOfSender.get(sender) ?? 0
  }

  #forget(key: string): void {
    const service = this.#services.get(key)
    if (service === undefined) return
    const { sender } = service
    this.#moveTo(service, undefined)
    this.#services.delete(key)
    this.#removals++
    if (this.#countOf(sender) > 1) this.#countOfSender.set(sender, this.#countOf(sender) - 1)
    else this.#countOfSender.delete(sender)
  }

  #takePlace({ name, ttl, target, port }: SrvRecord, sender: string, now: number): void {
    if (!this.#isOfService(name)) return
    const key = nameKey(name)
    const service = this.#services.get(key)
    if (service === undefined) return
    const { srv, pointer } = service
    const targetKey = nameKey(target)
    const isSame = srv?.value.targetKey === targetKey && srv.value.port === port
    const staysSender = srv !== undefined && isSame && (isIPv6(sender) || !isIPv6(srv.value.sender))
    const value: Place = {
      target,
      targetKey,
      port,
      sender: staysSender ? srv.value.sender : sender,
    }
    const said = this.#hear(srv, value, { ttl, sender, now, isSame })
    // Nothing listens there any more, whether or not the name is taken back too.
    if (said === undefined && pointer.isUpTo(sender, now)) this.#forget(key)
    else this.#moveTo(service, said)
  }

  #takeText({ name, ttl, strings }: TxtRecord, sender: string, now: number): void {
    const service = this.#isOfService(name) ? this.#services.get(nameKey(name)) : undefined
    if (service === undefined) return
    const known = service.txt?.value
    const isSame =
      known?.length === strings.length && strings.every((string, index) => string === known[index])
    service.txt = this.#hear(service.txt, strings, { ttl, sender, now, isSame })
  }

  /** What is true after a sender has said something: his word, or what was true before. */
  #hear<Value>(
    known: Said<Value> | undefined,
    value: Value,
    { isSame = true, ...heard }: Heard,
  ): Said<Value> | undefined {
    const { ttl, sender, now } = heard
    if (known === undefined || known.lease.isUpTo(sender, now))
      return ttl === 0 ? undefined : { lease: this.#lease(heard), value }
    if (ttl > 0 && isSame) known.lease.confirm(ttl, now)
    else known.lease.doubt(now)
    return ttl > 0 && isSame ? { lease: known.lease, value } : known
  }

  #moveTo(service: Service, srv: Said<Place> | undefined): void {
    const [before, after] = [service.srv?.value.targetKey, srv?.value.targetKey]
    service.srv = srv
    if (before === after) return
    if (srv !== undefined) this.#hosts.use(srv.value.targetKey, srv.value.target)
    else this.#removals++
    if (before !== undefined) this.#hosts.release(before)
  }

  #isUnreachable({ srv }: Service): boolean {
    return srv === undefined || !this.#hosts.hasAddress(srv.value.targetKey)
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

  #lease({ ttl, sender, now }: Heard): Lease {
    return new Lease({ ttl, sender, now, random: this.#random })
  }

  /** Who answers for a service that cannot be reached says with its name where it is. */
  #known(now: number): PtrRecord[] {
    return [...this.#services.values()]
      .filter((service) => service.pointer.isKnown(now) && !this.#isUnreachable(service))
      .map(({ name, pointer }) => {
        const ttl = Math.round((pointer.end - now) / 1000)
        return { type: 'PTR', name: this.#type, target: name, ttl, flush: false }
      })
  }
}

interface Heard {
  readonly ttl: number
  readonly sender: string
  readonly now: number
  /** Whether it is what was said before. @default true */
  readonly isSame?: boolean
}

/** When to ask for what is missing of a service: undefined where nobody has looked yet. */
function resolveAt({ missing }: Service): number | undefined {
  if (missing === undefined) return undefined
  return missing.since + (RESOLVE_AFTER_MS[missing.asked] ?? Number.POSITIVE_INFINITY)
}
