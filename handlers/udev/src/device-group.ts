import { isWithin, type MatchedDevice } from './rule-set.js'

/** Devices that are offered as one: the topmost, and what lies below it. */
export interface DeviceGroup {
  readonly id: string
  /** In order of their paths; the topmost is the first. */
  readonly members: readonly MatchedDevice[]
}

/** Each device for itself. */
export function oneByOne(found: readonly MatchedDevice[]): DeviceGroup[] {
  return found.map((device) => ({ id: device.devpath, members: [device] }))
}

/** Devices that lie below another one that was found are parts of that one. */
export function groupRecursively(found: readonly MatchedDevice[]): DeviceGroup[] {
  const groups: { id: string; members: MatchedDevice[] }[] = []
  // By components, so that all that lies below a path follows it at once.
  for (const device of [...found].sort((a, b) => compareComponents(a.devpath, b.devpath))) {
    const group = groups.at(-1)
    if (group !== undefined && isWithin(device.devpath, group.id)) group.members.push(device)
    else groups.push({ id: device.devpath, members: [device] })
  }
  return groups
}

function compareComponents(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')]
  for (let at = 0; at < Math.min(left.length, right.length); at++) {
    const [one = '', other = ''] = [left[at], right[at]]
    if (one !== other) return one < other ? -1 : 1
  }
  return left.length - right.length
}
