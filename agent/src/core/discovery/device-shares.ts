import type { DeviceBounds } from './device-bounds.js'

/** The devices of one Configuration that could be served. */
export interface DeviceDemand {
  /** The units of the devices that the handlers list, up to the bound of a Configuration. */
  readonly units: number
  /** The units of the devices that this node serves already. */
  readonly servedUnits: number
  /** The number of these devices: their units before they grew. */
  readonly served: number
  /** The slots of each device. */
  readonly capacity: number
}

/** The most units of a Configuration, and the bound of the node that decides. */
export interface DeviceShare {
  readonly most: number
  readonly bound: 'perNode' | 'slots'
}

/** Divides the bounds of the node among Configurations. */
export function deviceShares<Key>(
  demands: ReadonlyMap<Key, DeviceDemand>,
  { perNode, slots }: Pick<DeviceBounds, 'perNode' | 'slots'>,
): Map<Key, DeviceShare> {
  const byDevices = divideUnits(demands, perNode)
  const bySlots = divideUnits(
    new Map(
      [...demands].map(([key, { units, servedUnits, served, capacity }]) => [
        key,
        {
          units: units * capacity,
          servedUnits: servedUnits * capacity,
          served: served * capacity,
        },
      ]),
    ),
    slots,
  )
  const shares = new Map<Key, DeviceShare>()
  // The slots of a share may be too few for a device more.
  let rest = slots
  for (const [key, { capacity }] of demands)
    rest -= Math.floor((bySlots.get(key) ?? 0) / capacity) * capacity
  for (const [key, { capacity }] of demands) {
    const ofDevices = byDevices.get(key) ?? 0
    const ofSlots = Math.floor((bySlots.get(key) ?? 0) / capacity)
    const more = Math.min(Math.max(0, ofDevices - ofSlots), Math.floor(rest / capacity))
    rest -= more * capacity
    const most = Math.min(ofSlots + more, ofDevices)
    shares.set(key, { most, bound: most < ofDevices ? 'slots' : 'perNode' })
  }
  return shares
}

export type UnitDemand = Omit<DeviceDemand, 'capacity'>

/**
 * Devices that are served stay. The others get equal shares: a Configuration with many new devices
 * leaves room for those with few. If devices that are served have grown so much that they no longer
 * fit, each counts as one unit, and what it has grown by competes with new devices.
 *
 * @returns the share of each Configuration; together at most `most`
 */
export function divideUnits<Key>(
  demands: ReadonlyMap<Key, UnitDemand>,
  most: number,
): Map<Key, number> {
  const servedUnits = [...demands.values()].reduce((sum, demand) => sum + demand.servedUnits, 0)
  const kept = ({ servedUnits: all, served }: UnitDemand) => (servedUnits <= most ? all : served)
  const shareAt = (demand: UnitDemand, level: number) =>
    Math.min(demand.units, Math.max(kept(demand), level))
  const sumAt = (level: number) =>
    [...demands.values()].reduce((sum, demand) => sum + shareAt(demand, level), 0)

  // The highest level whose shares fit.
  let [level, tooHigh] = [0, most + 1]
  while (tooHigh - level > 1) {
    const middle = Math.floor((level + tooHigh) / 2)
    if (sumAt(middle) <= most) level = middle
    else tooHigh = middle
  }
  let rest = most - sumAt(level)
  const shares = new Map<Key, number>()
  let room = most
  for (const [key, demand] of demands) {
    let share = shareAt(demand, level)
    // What does not divide evenly goes to the first Configurations.
    if (rest > 0 && share === level && share < demand.units) {
      share++
      rest--
    }
    // After the bound was lowered, not even the served devices fit.
    share = Math.min(share, room)
    room -= share
    shares.set(key, share)
  }
  return shares
}
