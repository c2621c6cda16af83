import { isIPv4 } from 'node:net'
import { type Clock, messageOf } from '@akrijs/runtime'
import { machineAddresses } from './machine-interfaces.js'
import { type MachineLinks, missingInterface, readMachineLinks } from './machine-links.js'

/** An interface and its address from which a message is sent, or an address that gets one. */
export type SearchPlace =
  | {
      /** The name of the interface. */
      readonly interface: string
      /** The address of this machine on the interface. */
      readonly address: string
    }
  | {
      /** The address that gets the message. */
      readonly to: string
    }

/** Options of {@link MulticastSearch}. */
export interface MulticastSearchOptions {
  /** The name of the messages, such as `Probes (UDP port 3702)`. */
  readonly messages: string
  /** How long the handler waits for answers, in milliseconds. */
  readonly waitMs: number
  /**
   * The names of the interfaces that an operator chose.
   * @default all but the loopback interface and the interfaces of container networks
   */
  readonly only?: readonly string[] | undefined
  /** The family of the addresses that messages are sent from. @default both */
  readonly family?: 'IPv4'
  /** The clock of the handler. */
  readonly clock: Clock
}

/** The most places, and the most addresses of senders, that a text names. */
const SHOWN = 3
/** The most senders that are remembered, and how long, in milliseconds. */
const MAX_SENDERS = 64
const SENDER_MS = 10 * 60_000

const CODES: Readonly<Record<string, string>> = {
  EACCES: 'this machine does not allow it',
  EADDRINUSE: 'another program has the port for itself',
  EADDRNOTAVAIL: 'the interface has no such address now',
  EHOSTUNREACH: 'there is no route',
  ENETDOWN: 'the interface is down',
  ENETUNREACH: 'there is no route',
  ENODEV: 'there is no such interface',
  EPERM: 'a firewall of this machine refuses it',
}

/**
 * Keeps what a handler did to find devices by messages on the network. {@link remarks} then tells
 * people why no device answered. The texts are the same until something changes.
 *
 * @example
 * const clock = currentClock()
 * const search = new MulticastSearch({ messages: 'searches (UDP 1900)', waitMs: 3000, clock })
 * try {
 *   await socket.send(message, 1900, '239.255.255.250')
 *   search.sent({ interface: 'eth0', address: '192.0.2.1' })
 * } catch (error) {
 *   search.failed({ interface: 'eth0', address: '192.0.2.1' }, error)
 * }
 * for (const text of search.remarks(true)) remark(text)
 */
export class MulticastSearch {
  readonly #options: MulticastSearchOptions
  readonly #readLinks: () => MachineLinks
  /** The error is undefined after a message was sent. */
  readonly #places = new Map<string, { readonly place: SearchPlace; readonly error?: unknown }>()
  /** When a sender was ignored last. */
  readonly #ignored = new Map<string, number>()

  /**
   * @param options the texts for people
   * @param readLinks all interfaces @default those of this machine
   */
  constructor(options: MulticastSearchOptions, readLinks = readMachineLinks) {
    this.#options = options
    this.#readLinks = readLinks
  }

  /** A message was sent. */
  sent(place: SearchPlace): void {
    this.#places.set(keyOf(place), { place })
  }

  /** A message could not be sent. */
  failed(place: SearchPlace, error: unknown): void {
    this.#places.set(keyOf(place), { place, error })
  }

  /** Forgets all interfaces, and addresses of them, but these. */
  keep(places: readonly SearchPlace[]): void {
    const kept = new Set(places.map(keyOf))
    for (const [key, { place }] of this.#places)
      if ('interface' in place && !kept.has(key)) this.#places.delete(key)
  }

  /** Forgets an address. */
  forget(to: string): void {
    this.#places.delete(keyOf({ to }))
  }

  /** A device announced itself from an address that the handler must not listen to. */
  ignored(sender: string): void {
    if (!this.#ignored.has(sender) && this.#ignored.size >= MAX_SENDERS) this.#expire()
    if (this.#ignored.has(sender) || this.#ignored.size < MAX_SENDERS)
      this.#ignored.set(sender, this.#options.clock.monotonicMs())
  }

  /**
   * Why no device is found, for `remark` of the context of a handler.
   * @param isUnanswered whether no device has announced itself; otherwise only errors count
   */
  remarks(isUnanswered: boolean): readonly string[] {
    const all = [...this.#places.values()]
    const tried = all.filter(({ error }) => error === undefined).map(({ place }) => place)
    const failed = all.filter(({ error }) => error !== undefined)
    const { messages, waitMs, only, family } = this.#options
    const remarks: string[] = []
    if (isUnanswered) {
      const links = this.#readLinks()
      const from = interfacesOf(tried, links)
      const to = tried.flatMap((place) => ('to' in place ? [place.to] : [])).sort()
      const silence = `no answer in ${waitMs / 1000} s to ${messages}`
      if (from.length > 0) remarks.push(`${silence} from ${listed(from)}`)
      if (to.length > 0) remarks.push(`${silence} to ${listed(to)}`)
      if (all.length === 0)
        remarks.push(
          `no interface for ${messages}: ${listed(missingInterface(links, only, family))}`,
        )
      if (from.length > 0 && links.isSeparate)
        remarks.push(
          'the handler has a network of its own, as in a Pod without hostNetwork: multicast of ' +
            'the network of the node does not arrive in it',
        )
    }
    const [first] = failed
    if (first !== undefined) {
      const more = failed.length > 1 ? `; ${failed.length - 1} more failed` : ''
      remarks.push(`${messages} not sent ${placeText(first.place)}: ${why(first.error)}${more}`)
    }
    const senders = this.#ignoredSenders()
    if (isUnanswered && senders.length > 0)
      remarks.push(`announcements ignored, not from the allowed networks: ${listed(senders)}`)
    return remarks
  }

  /** A machine also receives what it sends itself. */
  #ignoredSenders(): string[] {
    this.#expire()
    const own = new Set(machineAddresses())
    return [...this.#ignored.keys()].filter((sender) => !own.has(sender.replace(/%.*/, ''))).sort()
  }

  #expire(): void {
    const since = this.#options.clock.monotonicMs() - SENDER_MS
    for (const [sender, at] of this.#ignored) if (at < since) this.#ignored.delete(sender)
  }
}

function keyOf(place: SearchPlace): string {
  return 'to' in place ? `to ${place.to}` : `${place.interface} ${place.address}`
}

function placeText(place: SearchPlace): string {
  return 'to' in place ? `to ${place.to}` : `from ${place.interface} (${place.address})`
}

/** Such as `eth0 (10.0.0.7, IPv6)`. */
function interfacesOf(places: readonly SearchPlace[], links: MachineLinks): string[] {
  const addresses = new Map<string, Set<string>>()
  for (const place of places)
    if ('interface' in place) {
      const { interface: name, address } = place
      const found = addresses.get(name) ?? new Set<string>()
      addresses.set(name, found)
      found.add(isIPv4(address) ? address : 'IPv6')
    }
  return [...addresses].sort().map(([name, found]) => {
    const [first = '', second] = [...found].sort()
    const more = second === undefined ? '' : `, ${found.size === 2 ? second : '…'}`
    const lack = links.links.get(name)?.lacksMulticast === true ? ' without multicast' : ''
    return `${name} (${first}${more})${lack}`
  })
}

function why(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const meaning = CODES[code]
  return meaning === undefined ? messageOf(error) : `${code}, ${meaning}`
}

function listed(texts: readonly string[]): string {
  const more = texts.length - SHOWN
  return `${texts.slice(0, SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
