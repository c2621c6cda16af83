// What has been heard of the addresses of hosts (RFC 6762, section 10). Without any I/O.
import { type AddressRecord, type DnsName, nameKey, type Question } from './dns-message.js'
import { Lease } from './lease.js'

/** RFC 6762, section 10.2: records that are younger belong to the same announcement, in milliseconds. */
const SAME_ANNOUNCEMENT_MS = 1000
const MAX_ADDRESSES = 16

/** A host that services are on. */
interface Host {
  readonly name: DnsName
  services: number
  readonly addresses: Map<string, Said>
}

interface Said {
  readonly lease: Lease
  readonly type: AddressRecord['type']
}

/** The addresses of hosts that services are on, and of no others: so nobody fills the memory with hosts. */
export class HostCache {
  readonly #random: () => number
  readonly #hosts = new Map<string, Host>()
  #removals = 0

  /** @param random as {@link Lease} wants it */
  constructor(random: () => number) {
    this.#random = random
  }

  /** A service is on this host. @param key {@link nameKey} of its name */
  use(key: string, name: DnsName): void {
    const host = this.#hosts.get(key) ?? { name, services: 0, addresses: new Map() }
    host.services++
    this.#hosts.set(key, host)
  }

  /** A service that was on this host is not any more. */
  release(key: string): void {
    const host = this.#hosts.get(key)
    if (host === undefined) return
    host.services--
    if (host.services === 0) this.#hosts.delete(key)
  }

  /** Sorted; none of a host on which no service is. */
  addressesOf(key: string): string[] {
    return [...(this.#hosts.get(key)?.addresses.keys() ?? [])].sort()
  }

  hasAddress(key: string): boolean {
    return (this.#hosts.get(key)?.addresses.size ?? 0) > 0
  }

  take({ name, type, address, ttl, flush }: AddressRecord, sender: string, now: number): void {
    const host = this.#hosts.get(nameKey(name))
    if (host === undefined) return
    const known = host.addresses.get(address)
    const others = [...host.addresses].filter(([, other]) => other.type === type)
    if (others.length === 0 || others.some(([, { lease }]) => lease.isUpTo(sender, now))) {
      // An announcement of addresses takes the place of older ones.
      for (const [other, { lease }] of flush ? others : [])
        if (other !== address && lease.isOlderThan(SAME_ANNOUNCEMENT_MS, now))
          this.#forget(host, other)
      if (ttl === 0) this.#forget(host, address)
      else if (known !== undefined || host.addresses.size < MAX_ADDRESSES)
        host.addresses.set(address, {
          lease: new Lease({ ttl, sender, now, random: this.#random }),
          type,
        })
    } else if (ttl > 0 && known !== undefined) known.lease.confirm(ttl, now)
    else if (ttl === 0) known?.lease.doubt(now)
    else for (const [, { lease }] of others) lease.doubt(now)
  }

  /** Forgets what is no longer true. */
  expire(now: number): void {
    for (const host of this.#hosts.values())
      for (const [address, { lease }] of host.addresses)
        if (lease.isOver(now)) this.#forget(host, address)
  }

  /** How often a host has lost its last address since this was asked. */
  takeRemovals(): number {
    const removals = this.#removals
    this.#removals = 0
    return removals
  }

  /** What to ask now for what is about to run out or in doubt. It counts as asked. */
  *takeDueQuestions(now: number): Generator<Question> {
    for (const { name, addresses } of this.#hosts.values())
      for (const { lease, type } of addresses.values()) if (lease.takeDue(now)) yield { name, type }
  }

  *leases(): Generator<Lease> {
    for (const { addresses } of this.#hosts.values())
      for (const { lease } of addresses.values()) yield lease
  }

  #forget({ addresses }: Host, address: string): void {
    if (addresses.delete(address) && addresses.size === 0) this.#removals++
  }
}
