// What a browser yields. All of it came over the network: do not trust it.

/** A service that announced itself, with all that a connection needs. */
export interface Service {
  /** `_http._tcp`. */
  readonly type: string
  /** The name that a person reads: `Mixer 1.2`. Names are unique in a type and a network. */
  readonly name: string
  /** The interface of this machine on whose network the service is. */
  readonly interface: string
  /** `plc1.local`; a dot inside of a label has a backslash. */
  readonly host: string
  readonly port: number
  /**
   * The TXT record (RFC 6763, section 6.4). Keys are in lower case, and the first value of a key
   * counts; a key without a value has an empty one.
   */
  readonly txt: ReadonlyMap<string, string>
  /** At least one; sorted. A link-local address of IPv6 has its interface: `fe80::1%eth0`. */
  readonly addresses: readonly string[]
  /** The address that sent the host and the port; IPv4 if possible. */
  readonly sender: string
}

/** A service whose host, port or address did not arrive, although the browser asked for it. */
export interface IncompleteService extends Pick<Service, 'type' | 'name' | 'interface' | 'sender'> {
  /** The host without an address; undefined without a host and a port (SRV record). */
  readonly host: string | undefined
}

/** A service withdrew itself, or its records expired without an answer to four queries. */
export type EndOfService = 'goodbye' | 'expiry'

/** What is on the networks of this machine. */
export interface ServiceList {
  /** All services, by interface, type and name. */
  readonly services: readonly Service[]
  readonly incomplete: readonly IncompleteService[]
  /** The services that the list before had, and this list does not have. */
  readonly ended: readonly { readonly service: Service; readonly by: EndOfService }[]
}

/** A type of services, such as `_http._tcp` (RFC 6763, section 7). */
export const SERVICE_TYPE = /^_[A-Za-z0-9](?:[A-Za-z0-9-]{0,13}[A-Za-z0-9])?\._(?:tcp|udp)$/
