import { Device, DeviceReport } from '@akrijs/proto/discovery'
import { AkriError, isTurnOver, messageOf, nextTurn } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/runtime/handler'
import { boundReports, type DeviceListCheck } from '@akrijs/sdk/host'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { InvalidResponseError } from '../errors.js'
import { FIELDS_PER_DEVICE } from '../limits.js'
import { DeviceSelection } from './device-selection.js'
import type { BoundedList, DiscoverRequest } from './handler-endpoint.js'

/** The most bytes of one device: a Pod's environment and an Instance hold little more. */
export const MAX_DEVICE_BYTES = 256 * 1024
/** The most devices of a message: 4 MiB have room for two million, which take seconds to read. */
const MAX_DEVICES = 200_000

type Bound = Pick<DiscoverRequest, 'mostDevices' | 'rank'>

interface ReadOptions extends Bound {
  /** That of the stream: devices that equal those of the message before are the same objects. */
  readonly check: DeviceListCheck
}

/** The most bytes of all reports of devices that are decoded: 65,536 texts at most. */
const MAX_REPORT_BYTES = 128 * 1024

/**
 * Reads a DiscoverResponse. A message of 4 MiB can hold so many devices that they would take a
 * hundred times its memory. So only the devices that are kept are decoded, and in turns with other
 * work: 190,000 devices without properties take 0.2 s.
 *
 * @returns an empty list if the signal is aborted meanwhile
 * @throws InvalidDeviceListError, InvalidResponseError
 */
export async function readResponse(
  message: Uint8Array,
  { mostDevices, rank, check }: ReadOptions,
  signal: AbortSignal,
): Promise<BoundedList> {
  try {
    let all = 0
    const reports: DeviceReport[] = []
    let reportRoom = MAX_REPORT_BYTES
    const onReport = (report: Uint8Array) => {
      // A message without content takes memory too.
      reportRoom -= report.length + 1
      if (reportRoom >= 0) reports.push(DeviceReport.decode(report))
    }
    await eachDevice(message, signal, () => void all++, onReport)
    const isBeyond = all > mostDevices
    const selection = new DeviceSelection<Uint8Array>(mostDevices)
    const rankOf = isBeyond ? rank() : () => 0
    await eachDevice(message, signal, (device) => {
      const id = isBeyond ? idOf(device) : ''
      selection.add({ id, rank: rankOf(id), value: device })
    })
    const most = FIELDS_PER_DEVICE * mostDevices
    let fields = 0
    for (const device of selection.kept()) {
      if (isTurnOver()) await nextTurn()
      if (signal.aborted) break
      fields += fieldsOf(device)
      if (fields > most)
        throw new InvalidResponseError(`the devices of a message have more than ${most} fields`)
      check.add(Device.decode(device))
    }
    return {
      devices: check.end(),
      leftOut: selection.leftOut,
      reports: boundReports(reports),
    }
  } catch (error) {
    if (AkriError.is(error)) throw error
    throw new InvalidResponseError(`a message is not a DiscoverResponse: ${messageOf(error)}`)
  }
}

/** The same for a list of a handler in this process. */
export function boundList(
  list: DeviceList,
  { mostDevices, rank }: Bound,
): { readonly devices: DeviceList; readonly leftOut: number } {
  // At run time a handler is JavaScript: the check of the list refuses other values.
  if (!Array.isArray(list) || list.length <= mostDevices) return { devices: list, leftOut: 0 }
  const selection = new DeviceSelection<DeviceList[number]>(mostDevices)
  const rankOf = rank()
  for (const device of list) {
    const id: unknown = device?.id
    // A wrong device comes first, so that the check finds it.
    if (typeof id === 'string') selection.add({ id, rank: rankOf(id), value: device })
    else selection.add({ id: '', rank: -1, value: device })
  }
  return { devices: selection.kept(), leftOut: selection.leftOut }
}

async function eachDevice(
  message: Uint8Array,
  signal: AbortSignal,
  visit: (device: Uint8Array) => void,
  visitReport: (report: Uint8Array) => void = () => {},
): Promise<void> {
  const reader = new BinaryReader(message)
  for (let read = 1; reader.pos < reader.len; read++) {
    if (isTurnOver()) await nextTurn()
    if (signal.aborted) return
    if (read > MAX_DEVICES)
      throw new InvalidResponseError(`a message has more than ${MAX_DEVICES} devices`)
    const [field, type] = reader.tag()
    if (field === FIELD_REPORTS && type === WireType.LengthDelimited) {
      visitReport(reader.bytes())
      continue
    }
    if (field !== FIELD_DEVICES || type !== WireType.LengthDelimited) {
      skip(reader, field, type)
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

/** The fields of DiscoverResponse. */
const FIELD_DEVICES = 1
const FIELD_REPORTS = 1000
/** The field `id` of Device. */
const FIELD_ID = 1

/** How many fields a device has: each property, mount and device node is a field. */
function fieldsOf(device: Uint8Array): number {
  const reader = new BinaryReader(device)
  let fields = 0
  for (; reader.pos < reader.len; fields++) {
    const [field, type] = reader.tag()
    skip(reader, field, type)
  }
  return fields
}

/** Skips a field that is not read. @throws InvalidResponseError */
function skip(reader: BinaryReader, field: number, type: WireType): void {
  // proto3 never writes groups, and one of them takes as long as its content.
  if (type === WireType.StartGroup || type === WireType.EndGroup)
    throw new InvalidResponseError(`a message has a group, in field ${field}`)
  reader.skip(type, field)
}

function idOf(device: Uint8Array): string {
  const reader = new BinaryReader(device)
  let id = ''
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (field === FIELD_ID && type === WireType.LengthDelimited) id = reader.string()
    else skip(reader, field, type)
  }
  return id
}
