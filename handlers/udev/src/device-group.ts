import { isWithin, type MatchedDevice } from './rule-set.js'

/** Devices that form one device for the agent: a topmost device and the matches below it. */
export interface DeviceGroup {
  readonly id: string
  /** In the order of paths; the topmost device is the first. */
  readonly members: readonly MatchedDevice[]
}

/** One group for each device. */
export function groupSingly(found: readonly MatchedDevice[]): DeviceGroup[] {
  return found.map((device) => ({ id: device.devpath, members: [device] }))
}

/** One group for each topmost device: the matches below it are its parts. */
export function groupRecursively(found: readonly MatchedDevice[]): DeviceGroup[] {
  const groups: { id: string; members: MatchedDevice[] }[] = []
  // Order by path components, so that everything below a path directly follows the path.
  for (const device of [...found].sort((a, b) => compareComponents(a.devpath, b.devpath))) {
    const group = groups.at(-1)
    if (group !== undefined && isWithin(device.devpath, group.id)) group.members.push(device)
    else groups.push({ id: device.devpath, members: [device] })
  }
  return groups
}

function compareComponents(first: string, second: string): number {
  const [left, right] = [first.split('/'), second.split('/')]
  for (let at = 0; at < Math.min(left.length, right.length); at++) {
    const [a = '', b = ''] = [left[at], right[at]]
    if (a !== b) return a < b ? -1 : 1
  }
  return left.length - right.length
}
