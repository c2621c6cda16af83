// The received addresses of hosts (RFC 6762, section 10). Pure.

import { type AddressRecord, type DnsName, nameKey, type Question } from './dns-message.js'
import { Lease } from './lease.js'
import { MAX_ADDRESSES } from './limits.js'
import type { EndOfService } from './service.js'

/** RFC 6762, section 10.2: younger records belong to the same announcement, in milliseconds. */
const SAME_ANNOUNCEMENT_MS = 1000

/** A host with services. */
interface Host {
  readonly name: DnsName
  services: number
  readonly addresses: Map<string, AddressEntry>
}

interface AddressEntry {
  readonly lease: Lease
  readonly type: AddressRecord['type']
}

/**
 * The addresses of hosts with services. Other hosts are ignored, so that a sender cannot fill the
 * memory.
 */
export class HostCache {
  readonly #random: () => number
  readonly #hosts = new Map<string, Host>()
  readonly #ends: Map<string, EndOfService>

  /**
   * @param random as for {@link Lease}
   * @param ends gets the keys of hosts that lost their last address
   */
  constructor(random: () => number, ends: Map<string, EndOfService>) {
    this.#random = random
    this.#ends = ends
  }

  /** Adds a service to a host. @param key {@link nameKey} of its name */
  use(key: string, name: DnsName): void {
    const host = this.#hosts.get(key) ?? { name, services: 0, addresses: new Map() }
    host.services++
    this.#hosts.set(key, host)
  }

  /** Removes a service from a host. */
  release(key: string): void {
    const host = this.#hosts.get(key)
    if (host === undefined) return
    host.services--
    if (host.services === 0) this.#hosts.delete(key)
  }

  /** The sorted addresses; none for a host without services. */
  addressesOf(key: string): string[] {
    return [...(this.#hosts.get(key)?.addresses.keys() ?? [])].sort()
  }

  hasAddress(key: string): boolean {
    return (this.#hosts.get(key)?.addresses.size ?? 0) > 0
  }

  take({ name, type, address, ttl, flush }: AddressRecord, sender: string, now: number): void {
    const key = nameKey(name)
    const host = this.#hosts.get(key)
    if (host === undefined) return
    const entry = host.addresses.get(address)
    const others = [...host.addresses].filter(([, other]) => other.type === type)
    if (others.length === 0 || others.some(([, { lease }]) => lease.mayChange(sender))) {
      // An announcement replaces older addresses.
      for (const [other, { lease }] of flush ? others : [])
        if (other !== address && lease.isOlderThan(SAME_ANNOUNCEMENT_MS, now))
          host.addresses.delete(other)
      if (ttl === 0) this.#forget(key, address, 'goodbye')
      else if (entry !== undefined || host.addresses.size < MAX_ADDRESSES)
        host.addresses.set(address, {
          lease: new Lease({ ttl, sender, now, random: this.#random }),
          type,
        })
    } else if (ttl > 0 && entry !== undefined) entry.lease.confirm(ttl, now)
  }

  /** Removes expired addresses. */
  expire(now: number): void {
    for (const [key, { addresses }] of this.#hosts)
      for (const [address, { lease }] of addresses)
        if (lease.isExpired(now)) this.#forget(key, address, 'expiry')
  }

  /** The due queries for addresses. The caller must send them. */
  *takeDueQuestions(now: number): Generator<Question> {
    for (const { name, addresses } of this.#hosts.values())
      for (const { lease, type } of addresses.values()) if (lease.takeDue(now)) yield { name, type }
  }

  *leases(): Generator<Lease> {
    for (const { addresses } of this.#hosts.values())
      for (const { lease } of addresses.values()) yield lease
  }

  #forget(key: string, address: string, by: EndOfService): void {
    const { addresses } = this.#hosts.get(key) ?? {}
    if (addresses?.delete(address) && addresses.size === 0) this.#ends.set(key, by)
  }
}
