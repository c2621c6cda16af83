import type { Device } from '@akrijs/runtime/handler'

/** A device with more bytes counts as several devices. Usual devices have about 1 KiB. */
export const UNIT_BYTES = 4096
/** The memory of a property, a mount or a device node, besides its text. */
const ENTRY_BYTES = 96

/** How many usual devices have the memory of a device with so many bytes and entries. */
export function unitsOf(bytes: number, entries: number): number {
  return Math.max(1, Math.ceil((bytes + entries * ENTRY_BYTES) / UNIT_BYTES))
}

/** Each change of a list counts the units of all lists. */
const counted = new WeakMap<Device, number>()

const countedLists = new WeakMap<readonly Device[], number>()

/** The units of all devices of a list. */
export function listUnits(devices: readonly Device[]): number {
  const before = countedLists.get(devices)
  if (before !== undefined) return before
  const units = devices.reduce((sum, device) => sum + deviceUnits(device), 0)
  countedLists.set(devices, units)
  return units
}

/** As how many usual devices a device counts, of all bounds. */
export function deviceUnits(device: Device & { readonly reported?: Device }): number {
  const before = counted.get(device)
  if (before !== undefined) return before
  // What is refused is kept too.
  const { id, properties = {}, mounts = [], deviceSpecs = [] } = device.reported ?? device
  let bytes = id.length
  for (const [name, value] of Object.entries(properties)) bytes += name.length + value.length
  for (const { hostPath, containerPath } of [...mounts, ...deviceSpecs])
    bytes += hostPath.length + containerPath.length
  const entries = Object.keys(properties).length + mounts.length + deviceSpecs.length
  const units = unitsOf(bytes, entries)
  counted.set(device, units)
  return units
}
