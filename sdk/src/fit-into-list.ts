import type { Device } from '@akrijs/runtime/handler'
import { MAX_LIST_BYTES } from './device-list.js'

/** Of what a list may take: the rest is for what JSON does not count as gRPC does. */
const SHARE = 0.75

/**
 * The first of these devices, each id once, that one list has room for: a list that is too large is refused as a whole. For who
 * finds devices that others say to be there, and as many as they like.
 */
export function fitIntoList<D extends Device>(
  devices: Iterable<D>,
): { readonly devices: D[]; readonly leftOut: number } {
  const kept = new Map<string, D>()
  let bytes = 0
  let leftOut = 0
  for (const device of devices) {
    if (kept.has(device.id)) continue
    bytes += leftOut > 0 ? 0 : Buffer.byteLength(JSON.stringify(device))
    if (leftOut > 0 || bytes > SHARE * MAX_LIST_BYTES) leftOut++
    else kept.set(device.id, device)
  }
  return { devices: [...kept.values()], leftOut }
}
