// What any host of the network can make the handler keep and do (docs/security.md).

/** Announced devices that are kept. */
export const MAX_CAMERAS = 1000

/** Announced devices of one address: recorders announce all of their cameras. */
export const MAX_CAMERAS_PER_SOURCE = 32

/** Datagrams that are read; a datagram with much markup, or many references, counts as several. */
export const DATAGRAMS = {
  /** In a round. A recorder answers two Probes on each interface for each of its cameras. */
  perSource: 128,
  /** A tenth of the processor's time at worst. */
  perSecond: 500,
}

/**
 * Datagrams of a round that are read for each known camera in any case: a camera answers two Probes
 * on each interface. Without them, a flood from forged addresses would remove known cameras.
 */
export const DATAGRAMS_PER_CAMERA = 8

/** Questions for the URLs of devices that announce none: each is sent on all interfaces. */
export const QUESTIONS = { perSource: 8, perSecond: 64 }

/** From the start of a round to the start of the next, in milliseconds. */
export const ROUND_MS = 10_000

/** Queries at a time: in all, and of cameras that one address announced. */
export const QUERIES = { inAll: 16, perSource: 2 }

/**
 * The same for a camera that has said Hello: after a power cut, cameras that are still off keep the
 * other places for seconds.
 */
export const QUERIES_AFTER_HELLO = { inAll: 20, perSource: 3 }

/** Known cameras, and failed candidates, that are queried again in a round. */
export const REQUERIES_PER_ROUND = 16

/** URLs that one query calls. */
export const MAX_URLS = 8

/** Devices that are left out and listed, of each kind, and sources whose refusals are logged. */
export const MAX_LEFT_OUT = 256
export const MAX_LOGGED_SOURCES = 1000
