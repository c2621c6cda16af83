import type { Configuration } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { AdmittedDevice } from '../access/handler-access.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'
import type { DeviceBounds } from '../limits.js'

// From the lists of endpoints to the devices that are served.

/** A device of one Configuration on this node. */
export interface DiscoveredDevice {
  readonly device: HashedDevice
  /** Whether other nodes can see the device too: a property of its endpoint. */
  readonly shared: boolean
  /** The uid of the endpoint that lists the device. */
  readonly endpoint: string
  /**
   * False if the device is kept and not offered: its handler is silent for longer than the first
   * grace period, or the device is refused.
   */
  readonly healthy: boolean
  /** Why the device is refused: its handler may not give containers all that it reports. */
  readonly refusal?: string
}

type Devices = ReadonlyMap<string, DiscoveredDevice>

/** All devices of one Configuration: the union over its endpoints, one entry per device id. */
export interface DeviceSet {
  readonly devices: Devices
  /**
   * Whether a missing device is gone. False while an answer is outstanding (after a start, without
   * a handler): absence of evidence is not evidence of absence.
   */
  readonly complete: boolean
  /** The devices that a bound leaves out; undefined if there are none. */
  readonly leftOut: LeftOut | undefined
}

/** Of a Configuration that is not followed, or has no list yet. */
export const NO_DEVICES: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }

/** Devices that are listed and not served, because there are more than a bound allows. */
export interface LeftOut {
  /** Their number. If several endpoints list too many devices, there may be more. */
  readonly devices: number
  /** The bound that leaves the devices out. */
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
    hasSame(a.devices, b.devices, isSameDevice) &&
    hasSame(a.leftOut?.listed ?? a.devices, b.leftOut?.listed ?? b.devices, () => true)
  )
}

function hasSame(a: Devices, b: Devices, isSame: typeof isSameDevice): boolean {
  if (a === b) return true
  if (a.size !== b.size) return false
  for (const [id, device] of a) {
    const other = b.get(id)
    if (other === undefined || !isSame(device, other)) return false
  }
  return true
}

function isSameDevice(a: DiscoveredDevice, b: DiscoveredDevice): boolean {
  return (
    a.device.hash === b.device.hash &&
    a.healthy === b.healthy &&
    a.refusal === b.refusal &&
    a.shared === b.shared &&
    a.endpoint === b.endpoint
  )
}

/** The devices of one endpoint for one Configuration. */
export interface EndpointList {
  /** The uid of the endpoint. */
  readonly endpoint: string
  readonly shared: boolean
  /** The last list; undefined before the first list. */
  readonly devices: readonly AdmittedDevice[] | undefined
  /**
   * How many devices of the last list are beyond the bound of a list, and not in `devices`.
   * Undefined before the first list of this process: the endpoint may have found more devices.
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
  readonly isOfSlots: boolean
  /** What all devices of these Configurations would take. */
  demand: number
  left: number
}

/**
 * Decides which devices are served: by rank, then by id, then by Configuration. A device without
 * room is passed over; a device of another Configuration may follow it.
 */
export function admitDevices(
  listed: ReadonlyMap<ObjectKey, ListedDevices>,
  bounds: DeviceBounds,
): ReadonlyMap<ObjectKey, DeviceSet> {
  const rooms = roomsOf(listed, bounds)
  const admitted = new Map([...listed].map(([key, each]) => [key, servedSet(each.listed)]))
  const isEnough = ({ demand, left }: Room) => demand <= left
  if ([...rooms.values()].every((each) => each.every(isEnough))) return admitted

  const byRank = Object.values(RANK).map((): Candidate[] => [])
  for (const [key, each] of listed) {
    const rankOf = each.ranks()
    for (const [id, { shared }] of each.listed.devices)
      byRank[rankOf(id, shared)]?.push({ key, id, slots: each.configuration.spec.capacity })
  }
  const kept = new Map([...listed.keys()].map((key) => [key, new Set<string>()]))
  for (const candidates of byRank) {
    // Most of a flood has no room: it need not be sorted.
    const withRoom = candidates
      .filter(({ key, slots }) => fullRoom(rooms.get(key), slots) === undefined)
      .sort((a, b) => compare(a.id, b.id) || compare(a.key, b.key))
    for (const { key, id, slots } of withRoom) {
      if (fullRoom(rooms.get(key), slots) !== undefined) continue
      for (const room of rooms.get(key) ?? []) room.left -= weight(room, slots)
      kept.get(key)?.add(id)
    }
  }
  for (const [key, { configuration, listed: set }] of listed) {
    const ids = kept.get(key)
    if (ids === undefined || ids.size === set.devices.size) continue
    const served = new Map([...set.devices].filter(([id]) => ids.has(id)))
    const full = fullRoom(rooms.get(key), configuration.spec.capacity)
    admitted.set(key, servedSet(set, served, full?.bound))
  }
  return admitted
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

interface Candidate {
  readonly key: ObjectKey
  readonly id: string
  readonly slots: number
}

/** The rooms of each Configuration: those of its namespace and of the node are shared. */
function roomsOf(
  listed: ReadonlyMap<ObjectKey, ListedDevices>,
  { perConfiguration, perNode, slots }: DeviceBounds,
): ReadonlyMap<ObjectKey, readonly Room[]> {
  const room = (bound: DeviceBound, most: number): Room => ({
    ...{ bound, demand: 0, left: Math.ceil(most) },
    isOfSlots: bound.startsWith('slots'),
  })
  const ofNode = [room('perNode', perNode), room('slots', slots)]
  const namespaces = new Map<string, readonly Room[]>()
  const rooms = new Map<ObjectKey, readonly Room[]>()
  for (const [key, { configuration, listed: set }] of listed) {
    const { namespace } = configuration.metadata
    const ofNamespace = namespaces.get(namespace) ?? [
      room('perNamespace', perNode / 2),
      room('slotsPerNamespace', slots / 2),
    ]
    namespaces.set(namespace, ofNamespace)
    const all = [room('perConfiguration', perConfiguration), ...ofNamespace, ...ofNode]
    for (const each of all)
      each.demand += set.devices.size * weight(each, configuration.spec.capacity)
    rooms.set(key, all)
  }
  return rooms
}

/** What a device with so many slots takes of a room. */
function weight({ isOfSlots }: Room, slots: number): number {
  return isOfSlots ? slots : 1
}

/** The first room that has no place for a device with so many slots. */
function fullRoom(rooms: readonly Room[] = [], slots: number): Room | undefined {
  return rooms.find((room) => weight(room, slots) > room.left)
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
