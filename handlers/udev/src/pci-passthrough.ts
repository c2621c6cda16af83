import type { DeviceGroup } from './device-group.js'
import type { SysfsDevice } from './sysfs-device.js'

/** The last PCI address in the path of a device that is not behind a USB controller. */
export function pciAddress(devpath: string): string | undefined {
  const segments = devpath.split('/')
  if (segments.some((segment) => segment.startsWith('usb'))) return undefined
  return segments.findLast((segment) =>
    /^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/.test(segment),
  )
}

/** The number of the IOMMU group of a PCI device. */
export function iommuGroup(device: SysfsDevice | undefined): string | undefined {
  if (device === undefined || pciAddress(device.devpath) === undefined) return undefined
  const group = device.linkName('iommu_group')
  return group !== undefined && /^\d+$/.test(group) ? group : undefined
}

/**
 * One group for all devices of an IOMMU group, such as the functions of a card: only one program
 * can open the node of the group, and gets all its devices.
 */
export function joinIommuGroups(groups: readonly DeviceGroup[]): DeviceGroup[] {
  const joined = new Map<string, DeviceGroup>()
  for (const group of groups) {
    const key = iommuGroup(group.members[0]) ?? group.id
    const first = joined.get(key)
    const members = [...(first?.members ?? []), ...group.members]
    joined.set(key, { id: first?.id ?? group.id, members })
  }
  return [...joined.values()]
}
