import type { Device } from '@akrijs/runtime/handler'
import { MAX_LIST_BYTES } from './device-list.js'

/**
 * The share of a list that the JSON text of its devices may take. The rest covers the differences
 * between JSON and gRPC.
 */
const SHARE = 0.75

/**
 * Takes devices, each id once, until the list is full: the agent refuses a list that is too large
 * as a whole. For handlers that find devices which other hosts announce, and any number of them.
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
