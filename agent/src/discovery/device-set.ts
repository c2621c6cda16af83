import type { Configuration } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { AdmittedDevice } from '../access/handler-access.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'
import type { DeviceBounds } from '../limits.js'

// From the lists of endpoints to the devices that are served.

/** A device of one Configuration on this node. */
export interface DiscoveredDevice {
  readonly device: HashedDevice
  /** Whether other nodes can see the device too. */
  readonly shared: boolean
  /** The uid of the endpoint that lists the device. */
  readonly endpoint: string
  /** False if the device is kept and not offered: its handler is silent, or it is refused. */
  readonly healthy: boolean
  /** Why the device is refused: its handler may not give containers all that it reports. */
  readonly refusal?: string
}

type Devices = ReadonlyMap<string, DiscoveredDevice>

/** All devices of one Configuration: the union over its endpoints, one entry per device id. */
export interface DeviceSet {
  readonly devices: Devices
  /** Whether a missing device is gone. False while an answer is outstanding. */
  readonly complete: boolean
  /** The devices that a bound leaves out; undefined if there are none. */
  readonly leftOut: LeftOut | undefined
}

/** Of a Configuration that is not followed, or has no list yet. */
export const NO_DEVICES: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }

export interface LeftOut {
  /** Their number. If several endpoints list too many devices, there may be more. */
  readonly devices: number
  readonly bound: DeviceBound
  /** All devices before the bounds: a device that is left out is not gone. */
  readonly listed: Devices
}

/** Whether the handler lists the device, also beyond a bound. */
export function isListed({ devices, leftOut }: DeviceSet, id: string): boolean {
  return (leftOut?.listed ?? devices).has(id)
}

/** Whether both sets are the same in all that is done with them. */
export function isSameSet(a: DeviceSet, b: DeviceSet): boolean {
  return (
    a.complete === b.complete &&
    a.leftOut?.devices === b.leftOut?.devices &&
    a.leftOut?.bound === b.leftOut?.bound &&
    hasSame(a.devices, b.devices) &&
    // Of a device that is left out, only the id counts.
    hasSame(a.leftOut?.listed, b.leftOut?.listed, (_, other) => other !== undefined)
  )
}

function hasSame(a?: Devices, b?: Devices, isSame = isSameDevice): boolean {
  if (a === b) return true
  if (a?.size !== b?.size) return false
  for (const [id, each] of a ?? []) if (!isSame(each, b?.get(id))) return false
  return true
}

export function isSameDevice(a: DiscoveredDevice, b: DiscoveredDevice | undefined): boolean {
  return (
    a.device.hash === b?.device.hash &&
    a.healthy === b.healthy &&
    a.refusal === b.refusal &&
    a.shared === b.shared &&
    a.endpoint === b.endpoint
  )
}

export interface EndpointList {
  /** The uid of the endpoint. */
  readonly endpoint: string
  readonly shared: boolean
  /** The last list; undefined before the first list. */
  readonly devices: readonly AdmittedDevice[] | undefined
  /**
   * How many devices were beyond the bound of a list. Undefined before the first list of this
   * process: the endpoint may have found more devices.
   */
  readonly leftOut: number | undefined
  /** Time when the stream of the list ended; undefined while the stream is open. */
  readonly lostSince?: number
}

export interface AgeingOptions {
  /** A device without its handler is unhealthy after so many milliseconds. */
  readonly unhealthyAfterMs: number
  /** A device without its handler is gone after so many milliseconds. */
  readonly removeAfterMs: number
}

/** The devices of a Configuration before the bounds. */
interface AgedSet {
  readonly devices: Devices
  readonly complete: boolean
  /** How many devices are listed and not in the set. */
  readonly leftOut: number
  /** When the set changes by time alone; Infinity if it does not. */
  readonly changesAt: number
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
 */
export function ageDevices(
  lists: Iterable<EndpointList>,
  now: number,
  { unhealthyAfterMs, removeAfterMs }: AgeingOptions,
): AgedSet {
  const devices = new Map<string, DiscoveredDevice>()
  let changesAt = Number.POSITIVE_INFINITY
  let complete = true
  // The same devices may be beyond the bounds of several lists.
  let leftOut = 0
  for (const { lostSince = Number.POSITIVE_INFINITY, ...list } of lists) {
    const [unhealthyAt, goneAt] = [lostSince + unhealthyAfterMs, lostSince + removeAfterMs]
    if (now >= goneAt) continue
    changesAt = Math.min(changesAt, goneAt, now < unhealthyAt ? unhealthyAt : goneAt)
    if (list.leftOut === undefined) complete = false
    leftOut = Math.max(leftOut, list.leftOut ?? 0)
    const { endpoint, shared } = list
    for (const device of list.devices ?? []) {
      const { refusal } = device
      const healthy = now < unhealthyAt && refusal === undefined
      const other = devices.get(device.id)
      if (other === undefined) {
        const refused = refusal !== undefined && { refusal }
        devices.set(device.id, { device, shared, endpoint, healthy, ...refused })
      } else if (healthy && other.refusal === undefined)
        devices.set(device.id, { ...other, healthy: true })
    }
  }
  return { devices, complete, leftOut, changesAt }
}

/** The order of devices beyond a bound: smaller ranks first, and of one rank the first ids. */
export const RANK = {
  /** A container of this node uses the device. */
  used: 0,
  /** This node serves the device, or has admitted it. */
  served: 1,
  new: 2,
} as const

export type Rank = (typeof RANK)[keyof typeof RANK]

/** Ranks a device by its id, and by whether other nodes can see it. */
export type RankOf = (id: string, shared: boolean) => Rank

/** The devices that the handlers list for one Configuration. */
export interface ListedDevices {
  readonly key: ObjectKey
  readonly configuration: Pick<Configuration, 'metadata' | 'spec'>
  readonly listed: AgedSet
  /** Called if a bound is exceeded. */
  ranks(): RankOf
}

export type DeviceBound =
  | 'perConfiguration'
  | 'perNamespace'
  | 'slotsPerNamespace'
  | 'perNode'
  | 'slots'

/** One bound, for the Configurations that share it. */
interface Room {
  readonly bound: DeviceBound
  left: number
}

/** The part of a Configuration in the rooms. */
interface Portion<C> {
  readonly of: C
  /** Each with what one device takes of it. */
  readonly rooms: readonly (readonly [room: Room, weight: number])[]
  /** The ids of the devices that have room. */
  readonly admitted: Set<string>
}

/**
 * Decides which devices are served: by rank, then by id, then by Configuration. A device without
 * room is passed over; a device of another Configuration may follow it.
 */
export function admitDevices<C extends ListedDevices>(
  all: readonly C[],
  bounds: DeviceBounds,
): ReadonlyMap<C, DeviceSet> {
  const sets = new Map(all.map((each) => [each, servedSet(each.listed)]))
  const listing = all.filter(({ listed }) => listed.devices.size > 0)
  const demand = portionsOf(listing, bounds)
  for (const { of, rooms } of demand)
    for (const [room, weight] of rooms) room.left -= weight * of.listed.devices.size
  if (demand.every(({ rooms }) => rooms.every(([{ left }]) => left >= 0))) return sets

  const portions = portionsOf(listing, bounds)
  const byRank = Object.values(RANK).map((): { id: string; portion: Portion<C> }[] => [])
  for (const portion of portions) {
    const rankOf = portion.of.ranks()
    for (const [id, { shared }] of portion.of.listed.devices)
      byRank[rankOf(id, shared)]?.push({ id, portion })
  }
  for (const candidates of byRank) {
    // Most of a flood has no room: it need not be sorted.
    const withRoom = candidates
      .filter(({ portion }) => fullBound(portion) === undefined)
      .sort((a, b) => compare(a.id, b.id) || compare(a.portion.of.key, b.portion.of.key))
    for (const { id, portion } of withRoom) {
      if (fullBound(portion) !== undefined) continue
      for (const [room, weight] of portion.rooms) room.left -= weight
      portion.admitted.add(id)
    }
  }
  for (const portion of portions) {
    const { of, admitted } = portion
    const served = [...of.listed.devices].filter(([id]) => admitted.has(id))
    if (served.length < of.listed.devices.size)
      sets.set(of, servedSet(of.listed, new Map(served), fullBound(portion)))
  }
  return sets
}

/** The devices to serve of those that are listed. */
function servedSet(
  { devices: listed, complete, leftOut: beyondList }: AgedSet,
  devices = listed,
  bound: DeviceBound = 'perConfiguration',
): DeviceSet {
  const number = listed.size - devices.size + beyondList
  const leftOut = number > 0 ? { devices: number, bound, listed } : undefined
  return { devices, complete, leftOut }
}

/** Rooms without devices yet. Those of a namespace and of the node are shared. */
function portionsOf<C extends ListedDevices>(
  all: readonly C[],
  { perConfiguration, perNode, slots }: DeviceBounds,
): readonly Portion<C>[] {
  const shared = new Map<string, Room>()
  const room = (bound: DeviceBound, most: number, namespace = '') => {
    const found = shared.get(`${bound} ${namespace}`) ?? { bound, left: Math.ceil(most) }
    shared.set(`${bound} ${namespace}`, found)
    return found
  }
  return all.map((of) => {
    const { metadata, spec } = of.configuration
    const rooms: Portion<C>['rooms'] = [
      [{ bound: 'perConfiguration', left: perConfiguration }, 1],
      [room('perNamespace', perNode / 2, metadata.namespace), 1],
      [room('slotsPerNamespace', slots / 2, metadata.namespace), spec.capacity],
      [room('perNode', perNode), 1],
      [room('slots', slots), spec.capacity],
    ]
    return { of, rooms, admitted: new Set<string>() }
  })
}

/** The first bound that leaves out one more device. */
function fullBound({ rooms }: Portion<unknown>): DeviceBound | undefined {
  return rooms.find(([{ left }, weight]) => weight > left)?.[0].bound
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
