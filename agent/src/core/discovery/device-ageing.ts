import type { Device } from '@akrijs/runtime/handler'
import type { DeviceSet, DiscoveredDevice } from './device-set.js'

/** What is known of one endpoint for one Configuration. */
export interface EndpointList {
  /** The uid of the endpoint. */
  readonly endpoint: string
  readonly shared: boolean
  /** The list it gave last; undefined if none is known. */
  readonly devices: readonly Device[] | undefined
  /** Whether the list is from before a restart: the endpoint may have found more since it was written down. */
  readonly remembered: boolean
  /** Since when nobody vouches for the list, by the clock; undefined while its stream is open and has given it. */
  readonly lostSince: number | undefined
}

export interface AgeingOptions {
  /** After so many milliseconds without its handler a device is unhealthy. */
  readonly unhealthyAfterMs: number
  /** After so many milliseconds without its handler a device is gone. */
  readonly removeAfterMs: number
}

export interface AgedSet extends DeviceSet {
  /** When the set changes by time alone, by the clock; undefined if it does not. */
  readonly changesAt: number | undefined
}

/**
 * The devices of a Configuration, from what each endpoint said and how long ago it fell silent. A device that is missing
 * from a list that stands is gone; one whose list nobody vouches for stays for a while. An endpoint that is lost stands for what
 * it listed last, and for nothing else: what another one had found and lists no more is gone at once.
 *
 * @param waitingSince since when the Configuration has had no endpoint at all; undefined while it has one
 */
export function ageDevices(
  lists: readonly EndpointList[],
  now: number,
  options: AgeingOptions,
  waitingSince?: number,
): AgedSet {
  const devices = new Map<string, DiscoveredDevice>()
  const deadlines: number[] = []
  let complete = true
  const wait = (since: number): 'fresh' | 'unhealthy' | 'over' => {
    if (now >= since + options.removeAfterMs) return 'over'
    deadlines.push(since + options.removeAfterMs)
    if (now >= since + options.unhealthyAfterMs) return 'unhealthy'
    deadlines.push(since + options.unhealthyAfterMs)
    return 'fresh'
  }
  if (waitingSince !== undefined && wait(waitingSince) !== 'over') complete = false

  const inOrder = [...lists].sort((a, b) => (a.endpoint < b.endpoint ? -1 : 1))
  for (const { endpoint, shared, devices: list, remembered, lostSince } of inOrder) {
    const state = lostSince === undefined ? 'standing' : wait(lostSince)
    if (state === 'over') continue
    // What is not in the list may still be what it had found.
    if (list === undefined || remembered) complete = false
    for (const device of list ?? []) {
      const healthy = state !== 'unhealthy'
      const other = devices.get(device.id)
      // Of several endpoints that see a device, one that is sure wins, else the first.
      if (other === undefined || (!other.healthy && healthy))
        devices.set(device.id, { device, shared, endpoint, healthy })
    }
  }
  return { devices, complete, changesAt: deadlines.length > 0 ? Math.min(...deadlines) : undefined }
}
