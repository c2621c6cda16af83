import { isWithin } from './devpath.js'
import type { SysfsDevice } from './sysfs-device.js'

/** Devices that form one device for the agent: a topmost device and the matches below it. */
export interface DeviceGroup {
  readonly id: string
  /** In the order of paths; the topmost device is the first. */
  readonly members: readonly SysfsDevice[]
}

/** One group for each device. */
export function groupSingly(found: readonly SysfsDevice[]): DeviceGroup[] {
  return found.map((device) => ({ id: device.devpath, members: [device] }))
}

/** One group for each topmost device: the matches below it are its parts. */
export function groupRecursively(found: readonly SysfsDevice[]): DeviceGroup[] {
  const groups: { id: string; members: SysfsDevice[] }[] = []
  // Everything below a path follows the path directly: no character is less than NUL.
  const sortKey = ({ devpath }: SysfsDevice) => devpath.replaceAll('/', '\0')
  for (const device of [...found].sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))) {
    const group = groups.at(-1)
    if (group !== undefined && isWithin(device.devpath, group.id)) group.members.push(device)
    else groups.push({ id: device.devpath, members: [device] })
  }
  return groups
}
