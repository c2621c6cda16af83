import { decodeBytes } from './byte-text.js'
import type { MessageSource, Uevent } from './device-monitor.js'

/** The limit of properties of an event; the kernel has a limit of 64, and udevd adds its own. */
const MAX_PROPERTIES = 2048

/**
 * The header of libudev: "libudev\0", then numbers in network order and in the order of the machine
 * (libudev-monitor.c).
 */
const UDEV_PREFIX = Buffer.from('libudev\0')
const UDEV_MAGIC = 0xfeedcafe
const UDEV_HEADER_BYTES = 40

/**
 * Reads a message; undefined if it is not an event. The kernel sends `action@devpath` and then
 * `KEY=value`, each ended by NUL. udevd sends a header with the position of these pairs.
 */
export function parseUeventMessage(message: Buffer, source: MessageSource): Uevent | undefined {
  const payload = source === 'udev' ? udevPayload(message) : kernelPayload(message)
  if (payload === undefined) return undefined
  const properties = new Map<string, string>()
  for (const [name, value] of decodeBytes(payload).split('\0').flatMap(readAssignment)) {
    if (properties.size >= MAX_PROPERTIES) return undefined
    properties.set(name, value)
  }
  const action = properties.get('ACTION')
  const devpath = properties.get('DEVPATH')
  if (
    action === undefined ||
    devpath === undefined ||
    !devpath.startsWith('/') ||
    devpath.split('/').includes('..')
  )
    return undefined
  return { source, action, devpath, properties }
}

/** Reads a line `KEY=value` as a list of one pair; empty if the line is not an assignment. */
export function readAssignment(line: string): [string, string][] {
  const at = line.indexOf('=')
  return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : []
}

function kernelPayload(message: Buffer): Buffer | undefined {
  if (message.subarray(0, UDEV_PREFIX.length).equals(UDEV_PREFIX)) return undefined
  const end = message.indexOf(0)
  // ACTION and DEVPATH repeat "action@devpath".
  return end > 0 && message.subarray(0, end).includes('@') ? message.subarray(end + 1) : undefined
}

function udevPayload(message: Buffer): Buffer | undefined {
  if (
    message.length < UDEV_HEADER_BYTES ||
    !message.subarray(0, UDEV_PREFIX.length).equals(UDEV_PREFIX)
  )
    return undefined
  if (message.readUInt32BE(8) !== UDEV_MAGIC) return undefined
  // These two are in the order of the machine; Node.js supports only little-endian machines here.
  const offset = message.readUInt32LE(16)
  const length = message.readUInt32LE(20)
  return offset >= UDEV_HEADER_BYTES && offset + length <= message.length
    ? message.subarray(offset, offset + length)
    : undefined
}
