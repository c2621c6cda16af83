import { Device, DeviceReport } from '@akrijs/proto/discovery'
import { AkriError, isTurnOver, messageOf, nextTurn } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/runtime/handler'
import { boundReports, type DeviceListCheck } from '@akrijs/sdk/host'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { InvalidResponseError } from '../errors.js'
import { FIELDS_PER_DEVICE } from '../limits.js'
import type { BoundedList, DiscoverRequest } from './handler-endpoint.js'

/** The most bytes of one device: a Pod's environment and an Instance hold little more. */
export const MAX_DEVICE_BYTES = 256 * 1024
/** The most devices of a message: 4 MiB have room for two million, which take seconds to read. */
const MAX_DEVICES = 200_000

/** The most bytes of all reports of devices that are decoded: 65,536 texts at most. */
const MAX_REPORT_BYTES = 128 * 1024

type Bound = Pick<DiscoverRequest, 'mostDevices' | 'rank'>

interface ReadOptions extends Bound {
  /** That of the stream: devices that equal those of the message before are the same objects. */
  readonly check: DeviceListCheck
}

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
  { check, ...bound }: ReadOptions,
  signal: AbortSignal,
): Promise<BoundedList> {
  try {
    const devices = new FirstDevices(bound, idOf)
    const reports: DeviceReport[] = []
    let reportRoom = MAX_REPORT_BYTES
    const reader = new BinaryReader(message)
    for (let read = 1; reader.pos < reader.len; read++) {
      if (isTurnOver()) await nextTurn()
      if (signal.aborted) break
      if (read > MAX_DEVICES)
        throw new InvalidResponseError(`a message has more than ${MAX_DEVICES} devices`)
      const [field, type] = reader.tag()
      const isText = type === WireType.LengthDelimited
      if (isText && field === FIELD_DEVICES) devices.add(checkedSize(reader.bytes()))
      else if (isText && field === FIELD_REPORTS) {
        const report = reader.bytes()
        // A message without content takes memory too.
        reportRoom -= report.length + 1
        if (reportRoom >= 0) reports.push(DeviceReport.decode(report))
      } else skip(reader, field, type)
    }
    const most = FIELDS_PER_DEVICE * bound.mostDevices
    let fields = 0
    for (const device of devices.kept()) {
      if (isTurnOver()) await nextTurn()
      if (signal.aborted) break
      fields += eachField(device, skip)
      if (fields > most)
        throw new InvalidResponseError(`the devices of a message have more than ${most} fields`)
      check.add(Device.decode(device))
    }
    return { devices: check.end(), leftOut: devices.leftOut, reports: boundReports(reports) }
  } catch (error) {
    if (AkriError.is(error)) throw error
    throw new InvalidResponseError(`a message is not a DiscoverResponse: ${messageOf(error)}`)
  }
}

/** The same for a list of a handler in this process. */
export function boundList(
  list: DeviceList,
  bound: Bound,
): { readonly devices: DeviceList; readonly leftOut: number } {
  // At run time a handler is JavaScript: the check of the list refuses other values.
  if (!Array.isArray(list) || list.length <= bound.mostDevices) return { devices: list, leftOut: 0 }
  const devices = new FirstDevices<DeviceList[number]>(bound, (device) => device?.id)
  for (const device of list) devices.add(device)
  return { devices: devices.kept(), leftOut: devices.leftOut }
}

/**
 * Keeps the first devices by rank, then by id, up to the bound. It takes the memory of twice the
 * number, however many devices there are. The order of the calls does not matter.
 */
class FirstDevices<T> {
  /** How many devices are not kept, once {@link kept} was called. */
  leftOut = 0
  readonly #bound: Bound
  readonly #idOf: (device: T) => unknown
  #devices: T[] = []
  #rankOf: ReturnType<Bound['rank']> | undefined

  constructor(bound: Bound, idOf: (device: T) => unknown) {
    this.#bound = bound
    this.#idOf = idOf
  }

  add(device: T): void {
    this.#devices.push(device)
    if (this.#devices.length >= 2 * this.#bound.mostDevices) this.kept()
  }

  /** The kept devices: in the order in which they came, if all are kept. */
  kept(): readonly T[] {
    const { mostDevices, rank } = this.#bound
    const beyond = this.#devices.length - mostDevices
    if (beyond <= 0) return this.#devices
    this.leftOut += beyond
    this.#rankOf ??= rank()
    const candidates: { readonly rank: number; readonly id: string; readonly device: T }[] = []
    for (const device of this.#devices) {
      const id = this.#idOf(device)
      // A wrong device comes first, so that the check of the list finds it.
      if (typeof id === 'string') candidates.push({ rank: this.#rankOf(id), id, device })
      else candidates.push({ rank: -1, id: '', device })
    }
    candidates.sort((a, b) => a.rank - b.rank || (a.id < b.id ? -1 : Number(a.id > b.id)))
    this.#devices = candidates.slice(0, mostDevices).map(({ device }) => device)
    return this.#devices
  }
}

/** The fields of DiscoverResponse. */
const FIELD_DEVICES = 1
const FIELD_REPORTS = 1000
/** The field `id` of Device. */
const FIELD_ID = 1

function checkedSize(device: Uint8Array): Uint8Array {
  if (device.length <= MAX_DEVICE_BYTES) return device
  throw new InvalidResponseError(
    `a device takes ${device.length} bytes, more than ${MAX_DEVICE_BYTES}`,
  )
}

/** Visits the fields of a device: each property, mount and device node. @returns their number */
function eachField(
  device: Uint8Array,
  visit: (reader: BinaryReader, field: number, type: WireType) => void,
): number {
  const reader = new BinaryReader(device)
  let fields = 0
  for (; reader.pos < reader.len; fields++) visit(reader, ...reader.tag())
  return fields
}

function idOf(device: Uint8Array): string {
  let id = ''
  eachField(device, (reader, field, type) => {
    if (field === FIELD_ID && type === WireType.LengthDelimited) id = reader.string()
    else skip(reader, field, type)
  })
  return id
}

/** Skips a field that is not read. @throws InvalidResponseError */
function skip(reader: BinaryReader, field: number, type: WireType): void {
  // proto3 never writes groups, and one of them takes as long as its content.
  if (type === WireType.StartGroup || type === WireType.EndGroup)
    throw new InvalidResponseError(`a message has a group, in field ${field}`)
  reader.skip(type, field)
}
