// What any machine of the network can make a browser keep and do (docs/security.md).

/** Messages of multicast DNS; a message over 1500 bytes counts as several. */
export const MESSAGES = {
  /** In a round: a machine announces its 200 services in 50 messages, to each query. */
  perSource: 400,
  /** A quarter of the processor's time at worst. */
  perSecond: 500,
  /** The browser refreshes a record twice in this time at most. */
  roundMs: 10_000,
}

/**
 * Messages of a round that are read for each announced service in any case: answers to refreshes,
 * by which a service stays during a flood from forged addresses.
 */
export const MESSAGES_PER_SERVICE = 4

/** Addresses of a host, and checked addresses of a message: each check takes 20 µs. */
export const MAX_ADDRESSES = 16

/** Services of one network. */
export const MAX_SERVICES = 1000

/** Services of one sender: an OPC UA discovery server announces all servers of its machine. */
export const MAX_SERVICES_PER_SOURCE = 200
