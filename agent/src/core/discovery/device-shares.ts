/** The devices of one Configuration that could be served. */
export interface DeviceDemand {
  /** The devices that the handlers list, up to the bound of a Configuration. */
  readonly devices: number
  /** Those of them that this node serves already. */
  readonly served: number
}

/**
 * Divides the devices of one agent among Configurations. Devices that are served stay. The others
 * get equal shares: a Configuration with many new devices leaves room for those with few.
 *
 * @returns the most devices of each Configuration; together at most `most`
 */
export function deviceShares<Key>(
  demands: ReadonlyMap<Key, DeviceDemand>,
  most: number,
): Map<Key, number> {
  const shareAt = ({ devices, served }: DeviceDemand, level: number) =>
    Math.max(Math.min(devices, served), Math.min(devices, level))
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
    if (rest > 0 && share === level && share < demand.devices) {
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
