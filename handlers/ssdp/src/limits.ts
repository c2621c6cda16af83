// What any machine of the network can make the handler keep and do.

/** The longest datagram that is read, in bytes. An announcement has some hundred. */
export const MAX_MESSAGE_BYTES = 4096

/** Datagrams: a television announces itself in 20 messages, twice. */
export const MESSAGES = { perSource: 128, perSecond: 500, roundMs: 10_000 }

/** Devices of one address: a server of media has a handful. */
export const MAX_DEVICES_PER_SOURCE = 32

/** Devices in all. */
export const MAX_DEVICES = 1000

/** Search targets of a device that its properties name. */
export const MAX_TARGETS = 16

/** The longest description of a device, in bytes. One has some kilobytes. */
export const MAX_DESCRIPTION_BYTES = 64 * 1024

/** Descriptions that are read at the same time, in all and from one address. */
export const MAX_READS = 16
export const MAX_READS_PER_SOURCE = 4
