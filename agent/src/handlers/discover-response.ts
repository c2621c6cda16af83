import { Device, DeviceReport } from '@akrijs/proto/discovery'
import { AkriError, inTurns, messageOf } from '@akrijs/runtime'
import { boundReports, type DeviceListCheck } from '@akrijs/sdk/host'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { InvalidResponseError } from '../errors.js'
import { DISCOVER_RESPONSE } from '../limits.js'
import type { BoundedList, DiscoverRequest } from './handler-endpoint.js'

type Bound = Pick<DiscoverRequest, 'mostDevices' | 'rank'>

/** The fields of DiscoverResponse. */
const FIELD_DEVICES = 1
const FIELD_REPORTS = 1000
/** The field `id` of Device. */
const FIELD_ID = 1

const UTF8 = new TextDecoder()

/**
 * Reads a DiscoverResponse. A message of 4 MiB can hold so much that it would take a hundred times
 * its memory. So only the devices that are kept are decoded, in turns with other work.
 *
 * @param check that of the stream: equal devices of the message before are the same objects
 * @throws InvalidDeviceListError, InvalidResponseError
 */
export async function readResponse(
  message: Uint8Array,
  bound: Bound,
  check: DeviceListCheck,
): Promise<BoundedList> {
  try {
    let listed: ListedDevice[] = []
    let [read, count] = [0, 0]
    const reports: DeviceReport[] = []
    let reportRoom = DISCOVER_RESPONSE.reportBytes
    for await (const { field, bytes } of inTurns(textFields(message))) {
      // Also reports and unknown fields: they may be empty.
      if (++read > DISCOVER_RESPONSE.devices)
        throw new InvalidResponseError(
          `a message has more than ${DISCOVER_RESPONSE.devices} devices`,
        )
      if (field === FIELD_DEVICES) {
        count++
        listed.push(readListed(bytes))
        // A flood takes the memory of twice the bound, and no long sort.
        if (listed.length > 2 * bound.mostDevices) listed = firstDevices(listed, bound)
      }
      if (field !== FIELD_REPORTS) continue
      // A report without content takes memory too.
      reportRoom -= bytes.length + 1
      if (reportRoom >= 0) reports.push(DeviceReport.decode(bytes))
    }
    const kept = firstDevices(listed, bound)
    const fields = kept.reduce((sum, device) => sum + device.fields, 0)
    const most = DISCOVER_RESPONSE.fieldsPerDevice * bound.mostDevices
    if (fields > most)
      throw new InvalidResponseError(`the devices of a message have more than ${most} fields`)
    for await (const { bytes } of inTurns(kept)) check.add(Device.decode(bytes))
    return { devices: check.end(), leftOut: count - kept.length, reports: boundReports(reports) }
  } catch (error) {
    if (AkriError.is(error)) throw error
    throw new InvalidResponseError(`a message is not a DiscoverResponse: ${messageOf(error)}`)
  }
}

/** @returns the first devices by rank, then by id. All of them, in their order, if they fit */
export function firstDevices<T extends { readonly id: string }>(
  devices: T[],
  { mostDevices, rank }: Bound,
): T[] {
  if (devices.length <= mostDevices) return devices
  return devices
    .map((device) => ({ device, rank: rank(device.id) }))
    .sort((a, b) => a.rank - b.rank || (a.device.id < b.device.id ? -1 : 1))
    .slice(0, mostDevices)
    .map(({ device }) => device)
}

interface ListedDevice {
  readonly id: string
  /** The number of its properties, mounts and device nodes. */
  readonly fields: number
  readonly bytes: Uint8Array
}

function readListed(bytes: Uint8Array): ListedDevice {
  if (bytes.length > DISCOVER_RESPONSE.deviceBytes)
    throw new InvalidResponseError(
      `a device takes ${bytes.length} bytes, more than ${DISCOVER_RESPONSE.deviceBytes}`,
    )
  let [id, fields] = ['', 0]
  for (const { field, bytes: text } of textFields(bytes)) {
    if (field === FIELD_ID) id = UTF8.decode(text)
    fields++
  }
  return { id, fields, bytes }
}

/** The fields of a message that are texts, bytes or messages; the contract has no others. */
function* textFields(message: Uint8Array) {
  const reader = new BinaryReader(message)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    // proto3 never writes groups, and one of them takes as long as its content.
    if (type === WireType.StartGroup || type === WireType.EndGroup)
      throw new InvalidResponseError(`a message has a group, in field ${field}`)
    if (type === WireType.LengthDelimited) yield { field, bytes: reader.bytes() }
    else reader.skip(type, field)
  }
}
