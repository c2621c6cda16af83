import type { Device } from '@akrijs/runtime/handler'
import { MAX_LIST_BYTES } from './list-limit.js'

/**
 * The bytes that the JSON texts of the devices of a list may take. The rest of a list covers the
 * differences between JSON and gRPC.
 */
export const MAX_JSON_BYTES = 0.75 * MAX_LIST_BYTES

/** The bytes of a device in JSON. */
export function jsonBytes(device: Device): number {
  return Buffer.byteLength(JSON.stringify(device))
}

/**
 * Takes devices, each id once, until the list is full: the agent refuses a list that is too large
 * as a whole. For handlers that find devices which other hosts announce, and any number of them.
 */
export function fitIntoList<D extends Device>(
  devices: Iterable<D>,
): {
  /** The first devices, each id once. */
  readonly devices: D[]
  /** The number of other devices. */
  readonly leftOut: number
} {
  const kept = new Map<string, D>()
  let bytes = 0
  let leftOut = 0
  for (const device of devices) {
    if (kept.has(device.id)) continue
    bytes += leftOut > 0 ? 0 : jsonBytes(device)
    if (leftOut > 0 || bytes > MAX_JSON_BYTES) leftOut++
    else kept.set(device.id, device)
  }
  return { devices: [...kept.values()], leftOut }
}
