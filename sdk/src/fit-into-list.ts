import { isRecord, maskUrls, messageOf } from '@akrijs/runtime'
import { InvalidDeviceListError } from './errors.js'
import type { Device } from './handler/device.js'
import { MAX_LIST_BYTES } from './list-limit.js'

/**
 * The bytes that the JSON texts of the devices of a list may take. The rest of a list covers the
 * differences between JSON and gRPC.
 */
export const MAX_JSON_BYTES = 0.75 * MAX_LIST_BYTES

/**
 * The bytes of a device in JSON.
 * @throws InvalidDeviceListError if the device has no JSON
 */
export function jsonBytes(device: Device): number {
  // At run time a handler is JavaScript.
  if (!isRecord(device))
    throw new InvalidDeviceListError(`a device is ${String(device)}; it must be an object`)
  try {
    return Buffer.byteLength(JSON.stringify(device))
  } catch (error) {
    throw new InvalidDeviceListError(
      `device ${JSON.stringify(maskUrls(String(device.id)))}: ` +
        `${JSON.stringify(fieldWithoutJson(device))} has a value that no list can have: ` +
        messageOf(error),
    )
  }
}

function fieldWithoutJson(device: Device): string {
  let field = ''
  try {
    // A replacer sees each field before JSON refuses its value.
    JSON.stringify(device, (name, value: unknown) => {
      field = name
      return value
    })
  } catch {
    // The refused value is that of the last field.
  }
  return field
}

/**
 * Takes devices, each id once, until the list is full: the agent refuses a list that is too large
 * as a whole. For handlers that find devices which other hosts announce, and any number of them.
 * @throws InvalidDeviceListError if a device has a value without JSON, such as a BigInt
 *
 * @example
 * const { devices, leftOut } = fitIntoList(await listSensors(details.url, signal))
 * if (leftOut > 0) remark(`${leftOut} sensors have no room in the list`)
 * yield devices
 */
export function fitIntoList<D extends Device>(
  devices: Iterable<D>,
): {
  /** The first devices, each id once. */
  readonly devices: D[]
  /** The number of other devices. */
  readonly leftOut: number
} {
  const kept = new Map<string, D>()
  let bytes = 0
  let leftOut = 0
  for (const device of devices) {
    if (kept.has(device?.id)) continue
    bytes += leftOut > 0 ? 0 : jsonBytes(device)
    if (leftOut > 0 || bytes > MAX_JSON_BYTES) leftOut++
    else kept.set(device.id, device)
  }
  return { devices: [...kept.values()], leftOut }
}
