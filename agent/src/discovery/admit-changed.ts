import { isDeepStrictEqual } from 'node:util'
import { isTurnOver, nextTurn } from '@akrijs/runtime'
import type { Device, DeviceList } from '@akrijs/runtime/handler'
import type { AdmittedDevice } from '../access/handler-access.js'

interface AdmittedList {
  /** In the order of the list. */
  readonly devices: readonly AdmittedDevice[]
  /** The devices, properties, mounts and device nodes of the devices that have not changed. */
  readonly sameEntries: number
  /** The same of the other devices. */
  readonly otherEntries: number
}

/**
 * Admits a list. A list tells all devices: the work for a device, here and where the device is
 * used, is done only if the device has changed. So a device that equals the device of the list
 * before is the same object. The decision about device nodes is made for each list, because the
 * kernel may name other nodes by then.
 *
 * @param before the admitted list before
 */
export async function admitChanged(
  before: readonly AdmittedDevice[] | undefined,
  now: DeviceList,
  admit: (devices: DeviceList) => Promise<readonly AdmittedDevice[]>,
): Promise<AdmittedList> {
  const deviceBefore = finder(before ?? [])
  const devices: AdmittedDevice[] = []
  const toAdmit: Device[] = []
  const places: { readonly place: number; readonly admittedBefore: AdmittedDevice | undefined }[] =
    []
  let [sameEntries, otherEntries] = [0, 0]
  for (const device of now) {
    const admittedBefore = deviceBefore(device.id)
    const isSame =
      admittedBefore !== undefined && isEqual(admittedBefore.reported ?? admittedBefore, device)
    if (isSame) sameEntries += entriesOf(device)
    else otherEntries += entriesOf(device)
    const isSettled = isSame && (device.deviceSpecs ?? []).length === 0
    if (!isSettled) {
      toAdmit.push(device)
      places.push({ place: devices.length, admittedBefore })
    }
    devices.push(isSettled ? admittedBefore : device)
    if (isTurnOver()) await nextTurn()
  }
  const admitted = toAdmit.length === 0 ? [] : await admit(toAdmit)
  for (const [index, { place, admittedBefore }] of places.entries()) {
    const device = admitted[index]
    if (device === undefined) break
    devices[place] =
      admittedBefore !== undefined && isEqual(admittedBefore, device) ? admittedBefore : device
    if (isTurnOver()) await nextTurn()
  }
  return { devices, sameEntries, otherEntries }
}

/** Finds devices by id. Ids in the order of the list, and new ids after them, cost nothing. */
function finder(list: readonly AdmittedDevice[]): (id: string) => AdmittedDevice | undefined {
  let next = 0
  let places: Map<string, number> | undefined
  return (id) => {
    if (list[next]?.id !== id) {
      if (next === list.length && places === undefined) return undefined
      places ??= new Map(list.map((device, place) => [device.id, place]))
      const place = places.get(id)
      if (place === undefined) return undefined
      next = place
    }
    return list[next++]
  }
}

function isEqual(a: Device, b: Device): boolean {
  return a === b || isDeepStrictEqual(a, b)
}

function entriesOf({ properties, mounts = [], deviceSpecs = [] }: Device): number {
  let entries = 1 + mounts.length + deviceSpecs.length
  // A list of the names of each device would be garbage.
  for (const _ in properties) entries++
  return entries
}
