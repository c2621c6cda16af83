import { setImmediate } from 'node:timers/promises'
import { Device } from '@akrijs/proto/discovery'
import { AkriError, messageOf } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/runtime/handler'
import { checkDeviceList } from '@akrijs/sdk/host'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { DeviceSelection } from '../../core/discovery/device-selection.js'
import { unitsOf } from '../../core/discovery/device-units.js'
import { InvalidResponseError } from '../../errors.js'
import type { BoundedList, DiscoverRequest } from '../../ports/handler-endpoint.js'

/** The most bytes of one device: a Pod's environment and an Instance hold little more. */
export const MAX_DEVICE_BYTES = 256 * 1024
/** The devices that are read before other work gets its turn: about a millisecond. */
const TURN = 1000

type Bound = Pick<DiscoverRequest, 'mostDevices' | 'rank'>

/**
 * Reads a DiscoverResponse. A message of 4 MiB can hold 800,000 devices, which would take a hundred
 * times its memory. So only the devices that are kept are decoded.
 *
 * @returns an empty list if the signal is aborted meanwhile
 * @throws InvalidDeviceListError, InvalidResponseError
 */
export async function readResponse(
  message: Uint8Array,
  { mostDevices, rank }: Bound,
  signal: AbortSignal,
): Promise<BoundedList> {
  try {
    let all = 0
    await eachDevice(message, signal, (device) => {
      all += wireUnits(device)
    })
    const isBeyond = all > mostDevices
    const selection = new DeviceSelection<Uint8Array>(mostDevices)
    const rankOf = isBeyond ? rank() : () => 0
    await eachDevice(message, signal, (device) => {
      const id = isBeyond ? idOf(device) : ''
      const units = isBeyond ? wireUnits(device) : 0
      selection.add({ id, rank: rankOf(id, units), units, value: device })
    })
    const devices = selection.kept().map((device) => Device.decode(device))
    return { devices: checkDeviceList(devices), leftOut: selection.leftOut }
  } catch (error) {
    if (AkriError.is(error)) throw error
    throw new InvalidResponseError(`a message is not a DiscoverResponse: ${messageOf(error)}`)
  }
}

/** The same for a list of a handler in this process. */
export async function boundList(
  list: DeviceList,
  { mostDevices, rank }: Bound,
  signal: AbortSignal,
): Promise<BoundedList> {
  // At run time a handler is JavaScript: the check of the list refuses other values.
  if (!Array.isArray(list) || list.length <= mostDevices) return { devices: list, leftOut: 0 }
  const selection = new DeviceSelection<DeviceList[number]>(mostDevices)
  const rankOf = rank()
  for (const [index, device] of list.entries()) {
    if (index % TURN === TURN - 1) await setImmediate()
    if (signal.aborted) break
    const id: unknown = device?.id
    // A wrong device comes first, so that the check finds it.
    if (typeof id === 'string') selection.add({ id, rank: rankOf(id, 1), units: 1, value: device })
    else selection.add({ id: '', rank: -1, units: 1, value: device })
  }
  return { devices: selection.kept(), leftOut: selection.leftOut }
}

async function eachDevice(
  message: Uint8Array,
  signal: AbortSignal,
  visit: (device: Uint8Array) => void,
): Promise<void> {
  const reader = new BinaryReader(message)
  for (let read = 1; reader.pos < reader.len; read++) {
    if (read % TURN === 0) await setImmediate()
    if (signal.aborted) return
    const [field, type] = reader.tag()
    if (field !== FIELD_DEVICES || type !== WireType.LengthDelimited) {
      reader.skip(type, field)
      continue
    }
    const device = reader.bytes()
    if (device.length > MAX_DEVICE_BYTES) {
      throw new InvalidResponseError(
        `a device takes ${device.length} bytes, more than ${MAX_DEVICE_BYTES}`,
      )
    }
    visit(device)
  }
}

/** The field `devices` of DiscoverResponse. */
const FIELD_DEVICES = 1
/** The field `id` of Device. */
const FIELD_ID = 1

/** The units of a device before it is decoded: a field without content can take much memory. */
export function wireUnits(device: Uint8Array): number {
  const reader = new BinaryReader(device)
  let entries = 0
  for (; reader.pos < reader.len; entries++) {
    const [field, type] = reader.tag()
    reader.skip(type, field)
  }
  return unitsOf(device.length, entries)
}

function idOf(device: Uint8Array): string {
  const reader = new BinaryReader(device)
  let id = ''
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (field === FIELD_ID && type === WireType.LengthDelimited) id = reader.string()
    else reader.skip(type, field)
  }
  return id
}
