import type { DeviceBounds } from '../limits.js'

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
export interface ListedDevices<Device> {
  readonly namespace: string
  /** The slots of each device. */
  readonly capacity: number
  readonly devices: ReadonlyMap<string, Device>
  /** Called if a bound is exceeded. */
  ranks(): RankOf
}

export type DeviceBound =
  | 'perConfiguration'
  | 'perNamespace'
  | 'slotsPerNamespace'
  | 'perNode'
  | 'slots'

export interface AdmittedDevices<Device> {
  readonly devices: ReadonlyMap<string, Device>
  /** The bound that leaves out other devices; undefined if there are none. */
  readonly bound: DeviceBound | undefined
}

/** What is left of one bound. */
interface Room {
  readonly bound: DeviceBound
  readonly isOfSlots: boolean
  left: number
}

interface Candidate<Key> {
  readonly key: Key
  readonly id: string
  readonly slots: number
}

/**
 * Decides which devices are served: by rank, then by id, then by Configuration. A device without
 * room is passed over; a device of another Configuration may follow it.
 */
export function admitDevices<Key extends string, Device extends { readonly shared: boolean }>(
  listed: ReadonlyMap<Key, ListedDevices<Device>>,
  bounds: DeviceBounds,
): ReadonlyMap<Key, AdmittedDevices<Device>> {
  const admitted = new Map<Key, AdmittedDevices<Device>>()
  for (const [key, { devices }] of listed) admitted.set(key, { devices, bound: undefined })
  const all = roomsOf(listed, bounds)
  const fits = [...listed].every(([key, { capacity, devices }]) =>
    take(all.get(key), devices.size, devices.size * capacity),
  )
  if (fits) return admitted

  const rooms = roomsOf(listed, bounds)
  const kept = new Map<Key, Set<string>>()
  const byRank: readonly Candidate<Key>[][] = Object.values(RANK).map(() => [])
  for (const [key, each] of listed) {
    kept.set(key, new Set())
    const rankOf = each.ranks()
    for (const [id, { shared }] of each.devices)
      byRank[rankOf(id, shared)]?.push({ key, id, slots: each.capacity })
  }
  for (const candidates of byRank) {
    // Most of a flood has no room: it need not be sorted.
    const withRoom = candidates
      .filter(({ key, slots }) => boundOf(rooms.get(key), 1, slots) === undefined)
      .sort((a, b) => compare(a.id, b.id) || compare(a.key, b.key))
    for (const { key, id, slots } of withRoom)
      if (take(rooms.get(key), 1, slots)) kept.get(key)?.add(id)
  }
  for (const [key, { devices, capacity }] of listed) {
    const ids = kept.get(key)
    if (ids === undefined || ids.size === devices.size) continue
    const bound = boundOf(rooms.get(key), 1, capacity)
    admitted.set(key, { devices: new Map([...devices].filter(([id]) => ids.has(id))), bound })
  }
  return admitted
}

/** The rooms of each Configuration: those of its namespace and of the node are shared. */
function roomsOf<Key>(
  listed: ReadonlyMap<Key, { readonly namespace: string }>,
  { perConfiguration, perNode, slots }: DeviceBounds,
): ReadonlyMap<Key, readonly Room[]> {
  const room = (bound: DeviceBound, left: number, isOfSlots = false): Room => ({
    bound,
    left,
    isOfSlots,
  })
  const node = [room('perNode', perNode), room('slots', slots, true)]
  const namespaces = new Map<string, readonly Room[]>()
  const rooms = new Map<Key, readonly Room[]>()
  for (const [key, { namespace }] of listed) {
    const ofNamespace = namespaces.get(namespace) ?? [
      room('perNamespace', Math.ceil(perNode / 2)),
      room('slotsPerNamespace', Math.ceil(slots / 2), true),
    ]
    namespaces.set(namespace, ofNamespace)
    rooms.set(key, [room('perConfiguration', perConfiguration), ...ofNamespace, ...node])
  }
  return rooms
}

/** The first bound without room for so many devices and slots. */
function boundOf(
  rooms: readonly Room[] = [],
  devices: number,
  slots: number,
): DeviceBound | undefined {
  return rooms.find(({ left, isOfSlots }) => (isOfSlots ? slots : devices) > left)?.bound
}

/** Takes room for so many devices and slots, if there is room for all. */
function take(rooms: readonly Room[] = [], devices: number, slots: number): boolean {
  if (boundOf(rooms, devices, slots) !== undefined) return false
  for (const room of rooms) room.left -= room.isOfSlots ? slots : devices
  return true
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
