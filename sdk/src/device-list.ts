import path from 'node:path'
import { DiscoverResponse } from '@akrijs/proto/discovery'
import { isRecord, printable, printableLines } from '@akrijs/runtime'
import type { Device, DeviceList } from '@akrijs/runtime/handler'
import { InvalidDeviceListError } from './errors.js'

/** The longest id, in UTF-16 code units. */
export const MAX_ID_LENGTH = 2048

/**
 * The most bytes of the names and values of the properties of one device. They are a part of its
 * Instance, which each watcher receives as a whole, and stand twice in the environment of a
 * container, for which Linux has a bound.
 */
export const MAX_PROPERTIES_BYTES = 64 * 1024

/** The longest list, in bytes: the default limit of gRPC implementations for one message. */
export const MAX_LIST_BYTES = 4 * 1024 * 1024

/**
 * The most properties, mounts and device nodes of one device, all together: the agent checks a
 * device without a pause for other work.
 */
const MAX_DEVICE_ENTRIES = 5000

/** A device with all optional members, in the mutable shape that the generated code encodes. */
export interface CheckedDevice {
  id: string
  properties: { [name: string]: string }
  mounts: { containerPath: string; hostPath: string; readOnly: boolean }[]
  deviceSpecs: { containerPath: string; hostPath: string; permissions: string }[]
}

/**
 * Checks a list against the contract. Takes any value: at run time a handler is JavaScript.
 * @returns the list with all optional members
 * @throws InvalidDeviceListError naming the device and the rule
 */
export function checkDeviceList(list: unknown): CheckedDevice[] {
  if (!Array.isArray(list))
    throw new InvalidDeviceListError(`a device list is an array; this is ${typeOf(list)}`)
  const check = new DeviceListCheck()
  // `for of` also visits the holes of an array.
  for (const entry of list) check.add(entry)
  return check.end()
}

/** Checks a list device by device, as {@link checkDeviceList} does. */
export class DeviceListCheck {
  readonly #devices = new Map<string, CheckedDevice>()
  #bytes = 0
  #largest = { id: '', bytes: 0 }

  /** @throws InvalidDeviceListError */
  add(entry: unknown): void {
    const device = checkDevice(entry, this.#devices.size)
    const { id } = device
    if (this.#devices.has(id))
      throw new InvalidDeviceListError(
        `two devices have the id ${quote(id)}; an id belongs to one device`,
      )
    this.#devices.set(id, device)
    const { length: bytes } = DiscoverResponse.encode({ devices: [device] }).finish()
    this.#bytes += bytes
    if (bytes > this.#largest.bytes) this.#largest = { id, bytes }
  }

  /** @throws InvalidDeviceListError */
  end(): CheckedDevice[] {
    if (this.#bytes > MAX_LIST_BYTES) {
      throw new InvalidDeviceListError(
        `the list of ${this.#devices.size} devices takes ${this.#bytes} bytes, more than ` +
          `${MAX_LIST_BYTES}; the largest device is ${quote(this.#largest.id)}`,
      )
    }
    return [...this.#devices.values()]
  }
}

/**
 * Whether two checked lists have equal devices. The order of devices and of properties does not
 * count.
 */
export function equalDeviceLists(a: DeviceList, b: DeviceList): boolean {
  if (a.length !== b.length) return false
  const texts = new Map(a.map((device) => [device.id, canonical(device)]))
  return b.every((device) => texts.get(device.id) === canonical(device))
}

function checkDevice(entry: unknown, index: number): CheckedDevice {
  if (!isRecord(entry))
    throw new InvalidDeviceListError(`device ${index} is ${typeOf(entry)}; it must be an object`)
  const { id } = entry
  if (typeof id !== 'string')
    throw new InvalidDeviceListError(`device ${index}: id is ${typeOf(id)}; it must be a string`)
  if (id === '')
    throw new InvalidDeviceListError(`device ${index}: id is empty; it must identify the device`)
  if (id.length > MAX_ID_LENGTH) {
    throw new InvalidDeviceListError(
      `device ${index}: id has ${id.length} characters, more than ${MAX_ID_LENGTH}: ${quote(id)}`,
    )
  }
  const refuse = (what: string): never => {
    throw new InvalidDeviceListError(`device ${quote(id)}: ${what}`)
  }
  const entries = entriesOf(entry)
  if (entries > MAX_DEVICE_ENTRIES) {
    refuse(`it has ${entries} properties, mounts and device nodes, more than ${MAX_DEVICE_ENTRIES}`)
  }
  return {
    id,
    properties: checkProperties(entry.properties ?? {}, refuse),
    mounts: checkEntries(entry.mounts ?? [], 'mounts', refuse).map(
      ({ containerPath, hostPath, readOnly }, n) => ({
        containerPath: checkPath(containerPath, `mounts[${n}].containerPath`, refuse),
        hostPath: checkPath(hostPath, `mounts[${n}].hostPath`, refuse),
        readOnly:
          typeof (readOnly ?? false) === 'boolean'
            ? readOnly === true
            : refuse(`mounts[${n}].readOnly is ${typeOf(readOnly)}; it must be a boolean`),
      }),
    ),
    deviceSpecs: checkEntries(entry.deviceSpecs ?? [], 'deviceSpecs', refuse).map(
      ({ containerPath, hostPath, permissions }, n) => ({
        containerPath: checkPath(containerPath, `deviceSpecs[${n}].containerPath`, refuse),
        hostPath: checkPath(hostPath, `deviceSpecs[${n}].hostPath`, refuse),
        permissions: checkPermissions(permissions, `deviceSpecs[${n}].permissions`, refuse),
      }),
    ),
  }
}

/** The number of properties, mounts and device nodes, of any value. */
function entriesOf(device: Readonly<Record<string, unknown>>): number {
  const { properties, mounts, deviceSpecs } = device
  return [isRecord(properties) ? Object.keys(properties) : [], mounts, deviceSpecs].reduce<number>(
    (sum, entries) => sum + (Array.isArray(entries) ? entries.length : 0),
    0,
  )
}

type Refuse = (what: string) => never

function checkProperties(properties: unknown, refuse: Refuse): Record<string, string> {
  if (!isRecord(properties))
    return refuse(`properties is ${typeOf(properties)}; it must be an object of strings`)
  const checked: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(properties)) {
    // Properties become environment variables, where '=' ends the name.
    if (name === '' || name.includes('=') || name !== printable(name))
      refuse(`property name ${quote(name)} cannot name an environment variable`)
    if (typeof value !== 'string')
      return refuse(`property ${quote(name)} is ${typeOf(value)}; it must be a string`)
    // A value can be the text of a device. People see the value in the Instance.
    const text = printableLines(value)
    bytes += Buffer.byteLength(name) + Buffer.byteLength(text)
    if (bytes > MAX_PROPERTIES_BYTES)
      refuse(`its properties take more than ${MAX_PROPERTIES_BYTES} bytes, with ${quote(name)}`)
    checked.push([name, text])
  }
  return Object.fromEntries(checked)
}

function checkEntries(list: unknown, name: string, refuse: Refuse): Record<string, unknown>[] {
  if (!Array.isArray(list)) return refuse(`${name} is ${typeOf(list)}; it must be an array`)
  return list.map((entry, n) =>
    isRecord(entry) ? entry : refuse(`${name}[${n}] is ${typeOf(entry)}; it must be an object`),
  )
}

function checkPath(value: unknown, where: string, refuse: Refuse): string {
  if (typeof value !== 'string')
    return refuse(`${where} is ${typeOf(value)}; it must be an absolute path`)
  if (!value.startsWith('/')) refuse(`${where} is ${quote(value)}; it must be an absolute path`)
  if (value.includes('\0') || path.posix.normalize(value) !== value)
    refuse(`${where} is ${quote(value)}; it must have no '..', '.', '//' or NUL`)
  return value
}

function checkPermissions(value: unknown, where: string, refuse: Refuse): string {
  if (
    typeof value === 'string' &&
    /^[rwm]{1,3}$/.test(value) &&
    new Set(value).size === value.length
  )
    return value
  return refuse(
    `${where} is ${typeof value === 'string' ? quote(value) : typeOf(value)}; it must be ` +
      'made of r, w and m, each at most once',
  )
}

function canonical({ id, properties = {}, mounts, deviceSpecs }: Device): string {
  const sorted = Object.entries(properties).sort(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify([id, sorted, mounts, deviceSpecs])
}

function typeOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}

function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}
