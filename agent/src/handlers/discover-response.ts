import { Device, DeviceReport } from '@akrijs/proto/discovery'
import { AkriError, isTurnOver, messageOf, nextTurn } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/sdk/handler'
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
    const devices = new FirstDevices<{ readonly bytes: Uint8Array; readonly fields: number }>(bound)
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
      if (isText && field === FIELD_DEVICES) {
        const bytes = reader.bytes()
        const { id, fields } = readFields(bytes)
        devices.add(id, { bytes, fields })
      } else if (isText && field === FIELD_REPORTS) {
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
      fields += device.fields
      if (fields > most)
        throw new InvalidResponseError(`the devices of a message have more than ${most} fields`)
      check.add(Device.decode(device.bytes))
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
  const devices = new FirstDevices<DeviceList[number]>(bound)
  for (const device of list) devices.add(device?.id, device)
  return { devices: devices.kept(), leftOut: devices.leftOut }
}

interface Candidate<T> {
  readonly id: string
  /** Undefined until the bound is exceeded. */
  rank: number | undefined
  readonly device: T
}

/**
 * Keeps the first devices by rank, then by id, up to the bound. It takes the memory of twice the
 * number, however many devices there are. The order of the calls does not matter.
 */
class FirstDevices<T> {
  /** How many devices are not kept, once {@link kept} was called. */
  leftOut = 0
  readonly #bound: Bound
  readonly #candidates: Candidate<T>[] = []
  #rankOf: ReturnType<Bound['rank']> | undefined

  constructor(bound: Bound) {
    this.#bound = bound
  }

  add(id: unknown, device: T): void {
    // A wrong device comes first, so that the check of the list finds it.
    if (typeof id === 'string') this.#candidates.push({ id, rank: undefined, device })
    else this.#candidates.push({ id: '', rank: -1, device })
    if (this.#candidates.length >= 2 * this.#bound.mostDevices) this.#cut()
  }

  /** The kept devices: in the order in which they came, if all are kept. */
  kept(): readonly T[] {
    this.#cut()
    return this.#candidates.map(({ device }) => device)
  }

  #cut(): void {
    const { mostDevices, rank } = this.#bound
    const beyond = this.#candidates.length - mostDevices
    if (beyond <= 0) return
    this.leftOut += beyond
    this.#rankOf ??= rank()
    // A list can be cut hundreds of times: each rank is asked for once.
    for (const candidate of this.#candidates) candidate.rank ??= this.#rankOf(candidate.id)
    this.#candidates.sort(order)
    this.#candidates.length = mostDevices
  }
}

function order(a: Candidate<unknown>, b: Candidate<unknown>): number {
  return (a.rank ?? 0) - (b.rank ?? 0) || (a.id < b.id ? -1 : Number(a.id > b.id))
}

/** The fields of DiscoverResponse. */
const FIELD_DEVICES = 1
const FIELD_REPORTS = 1000
/** The field `id` of Device. */
const FIELD_ID = 1

/** Reads the id of a device, and how many fields it has: properties, mounts and device nodes. */
function readFields(device: Uint8Array): { readonly id: string; readonly fields: number } {
  if (device.length > MAX_DEVICE_BYTES)
    throw new InvalidResponseError(
      `a device takes ${device.length} bytes, more than ${MAX_DEVICE_BYTES}`,
    )
  const reader = new BinaryReader(device)
  let [id, fields] = ['', 0]
  for (; reader.pos < reader.len; fields++) {
    const [field, type] = reader.tag()
    if (field === FIELD_ID && type === WireType.LengthDelimited) id = reader.string()
    else skip(reader, field, type)
  }
  return { id, fields }
}

/** Skips a field that is not read. @throws InvalidResponseError */
function skip(reader: BinaryReader, field: number, type: WireType): void {
  // proto3 never writes groups, and one of them takes as long as its content.
  if (type === WireType.StartGroup || type === WireType.EndGroup)
    throw new InvalidResponseError(`a message has a group, in field ${field}`)
  reader.skip(type, field)
}
