// What any machine of the network can make the handler keep and do (docs/security.md).

/** Messages of multicast DNS; a message over 1500 bytes counts as several. */
export const MESSAGES = {
  /** In a round: a discovery server announces its 200 servers in 50 messages, to each query. */
  perSource: 400,
  /** A quarter of the processor's time at worst. */
  perSecond: 500,
  /** The handler refreshes a record twice in this time at most. */
  roundMs: 10_000,
}

/**
 * Messages of a round that are read for each announced server in any case: answers to refreshes,
 * by which a server stays during a flood from forged addresses.
 */
export const MESSAGES_PER_SERVER = 4

/** Addresses of a host, and checked addresses of a message: each check takes 20 µs. */
export const MAX_ADDRESSES = 16

/** Announced servers of one network, and servers of a Configuration. */
export const MAX_SERVERS = 1000

/** Announced servers of one sender: a discovery server announces all servers of its machine. */
export const MAX_SERVERS_PER_SOURCE = 200

/** Announced discovery servers that are called; those that have answered come first. */
export const MAX_DISCOVERY_SERVERS = 100
