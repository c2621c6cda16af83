import type { AdmittedDevice } from '../access/handler-access.js'
import type { DiscoveredDevice } from './device-set.js'

/** The devices of one endpoint for one Configuration. */
export interface EndpointList {
  /** The uid of the endpoint. */
  readonly endpoint: string
  readonly shared: boolean
  /** The last list; undefined before the first list. */
  readonly devices: readonly AdmittedDevice[] | undefined
  /** How many devices of the last list are beyond the bound of a list, and not in `devices`. */
  readonly leftOut: number
  /** Whether the list is from the checkpoint: the endpoint may have listed more devices since. */
  readonly remembered: boolean
  /** Time when the stream of the list ended; undefined while the stream is open. */
  readonly lostSince: number | undefined
}

/** The list after the end of its stream. */
export function lostAt(list: EndpointList, now: number): EndpointList {
  return { ...list, lostSince: list.lostSince ?? now }
}

export interface AgeingOptions {
  /** A device without its handler is unhealthy after so many milliseconds. */
  readonly unhealthyAfterMs: number
  /** A device without its handler is gone after so many milliseconds. */
  readonly removeAfterMs: number
}

/** The devices of a Configuration before the bounds. */
export interface AgedSet {
  readonly devices: ReadonlyMap<string, DiscoveredDevice>
  readonly complete: boolean
  /** How many devices are listed and not in the set. */
  readonly leftOut: number
  /** When the set changes by time alone; undefined if it does not. */
  readonly changesAt: number | undefined
}

/**
 * The devices of a Configuration, from the last list of each endpoint and the time since its stream
 * ended. A device that an open stream no longer lists is gone. Devices of an ended stream stay for
 * the grace periods. A lost endpoint keeps only its own devices: a device that another endpoint no
 * longer lists is gone at once. Of several endpoints that list a device, the first one describes
 * it, also while it is lost: another endpoint must not redirect the users of the device. The others
 * only confirm that the device is there.
 *
 * @param lists in the order in which their endpoints came
 * @param waitingSince start of the period without an endpoint; undefined while there is an endpoint
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
  // The same devices may be beyond the bounds of several lists.
  let leftOut = 0
  const wait = (since: number): 'fresh' | 'unhealthy' | 'over' => {
    if (now >= since + options.removeAfterMs) return 'over'
    deadlines.push(since + options.removeAfterMs)
    if (now >= since + options.unhealthyAfterMs) return 'unhealthy'
    deadlines.push(since + options.unhealthyAfterMs)
    return 'fresh'
  }
  if (waitingSince !== undefined && wait(waitingSince) !== 'over') complete = false

  for (const { endpoint, shared, devices: list, leftOut: beyondBound, ...rest } of lists) {
    const { remembered, lostSince } = rest
    const state = lostSince === undefined ? 'open' : wait(lostSince)
    if (state === 'over') continue
    // The endpoint may have found devices that are not in the list.
    if (list === undefined || remembered) complete = false
    leftOut = Math.max(leftOut, beyondBound)
    for (const device of list ?? []) {
      const { refusal } = device
      const healthy = state !== 'unhealthy' && refusal === undefined
      const other = devices.get(device.id)
      if (other !== undefined) {
        if (healthy && other.refusal === undefined)
          devices.set(device.id, { ...other, healthy: true })
      } else {
        const refused = refusal !== undefined && { refusal }
        devices.set(device.id, { device, shared, endpoint, healthy, ...refused })
      }
    }
  }
  const changesAt = deadlines.length > 0 ? Math.min(...deadlines) : undefined
  return { devices, complete, leftOut, changesAt }
}
