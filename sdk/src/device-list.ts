import { hash } from 'node:crypto'
import path from 'node:path'
import { DiscoverResponse } from '@akrijs/proto/discovery'
import { inTurns, isRecord, maskUrls, nearest, printable, printableLines } from '@akrijs/runtime'
import { InvalidDeviceListError } from './errors.js'
import { MAX_LIST_BYTES } from './list-limit.js'

/** The longest id, in UTF-16 code units. */
export const MAX_ID_LENGTH = 2048

/**
 * The most bytes of the names and values of the properties of one device. They are a part of its
 * Instance, which each watcher receives as a whole, and stand twice in the environment of a
 * container, for which Linux has a bound.
 */
export const MAX_PROPERTIES_BYTES = 64 * 1024

/**
 * The most properties, mounts and device nodes of one device, all together: the agent checks a
 * device without a pause for other work.
 */
const MAX_DEVICE_ENTRIES = 5000

const FIELDS = ['id', 'properties', 'mounts', 'deviceSpecs'] as const
const MOUNT_FIELDS = ['containerPath', 'hostPath', 'readOnly'] as const
const SPEC_FIELDS = ['containerPath', 'hostPath', 'permissions'] as const

/** A device with all optional members, in the mutable shape that the generated code encodes. */
export interface CheckedDevice {
  id: string
  properties: { [name: string]: string }
  mounts: { containerPath: string; hostPath: string; readOnly: boolean }[]
  deviceSpecs: { containerPath: string; hostPath: string; permissions: string }[]
  /**
   * Of the content: equal for equal devices. The order of properties does not count. Not
   * enumerable: tests of handlers compare devices, and JSON does not have it.
   */
  readonly hash: string
}

export function withHash(device: Omit<CheckedDevice, 'hash'>): CheckedDevice {
  let known: string | undefined
  const get = () => {
    if (known === undefined) {
      const { id, properties, mounts, deviceSpecs } = device
      const sorted = Object.entries(properties).sort(([a], [b]) => (a < b ? -1 : 1))
      known = hash('sha256', JSON.stringify([id, sorted, mounts, deviceSpecs]), 'base64')
    }
    return known
  }
  return Object.defineProperty(device, 'hash', { get }) as CheckedDevice
}

/**
 * Checks a list against the contract, in turns with other work of the process: a list can have
 * thousands of devices. Devices that the handler changes meanwhile may be in either state.
 * @param list any value: at run time a handler is JavaScript
 * @param check that of the stream of the list @default that of a first list
 * @returns the list with all optional members
 * @throws InvalidDeviceListError naming the device and the rule
 */
export async function checkInTurns(
  list: unknown,
  check = new DeviceListCheck(),
): Promise<CheckedDevice[]> {
  // A spread also has the holes of an array.
  for await (const entry of inTurns([...arrayOf(list)])) check.add(entry)
  return check.end()
}

interface KnownDevice {
  readonly device: CheckedDevice
  /** The length of its message. */
  readonly bytes: number
  /** The number of the last list that has the device. */
  list: number
}

/**
 * Checks the lists of one stream device by device. A device that equals the device of the list
 * before is the same object, and costs only the comparison.
 */
export class DeviceListCheck {
  readonly #known = new Map<string, KnownDevice>()
  /** The number of the list. */
  #number = 0
  #devices: CheckedDevice[] = []
  #bytes = 0
  #isChanged = true
  /** The devices of the list before. */
  #last: CheckedDevice[] = []

  /** @throws InvalidDeviceListError */
  add(entry: unknown): void {
    const id = isRecord(entry) && typeof entry.id === 'string' ? entry.id : undefined
    const before = id === undefined ? undefined : this.#known.get(id)
    const isSame = before?.list !== this.#number && before && isSameDevice(entry, before.device)
    const known = isSame ? before : this.#check(entry, before)
    known.list = this.#number
    this.#devices.push(known.device)
    this.#bytes += known.bytes
  }

  #check(entry: unknown, before: KnownDevice | undefined): KnownDevice {
    const device = checkDevice(entry, this.#devices.length)
    if (before?.list === this.#number)
      throw new InvalidDeviceListError(
        `two devices have the id ${quote(device.id)}; an id belongs to one device`,
      )
    // A check can change the text of a property.
    if (before?.device.hash === device.hash) return before
    const { length: bytes } = DiscoverResponse.encode({ devices: [device], reports: [] }).finish()
    const known = { device, bytes, list: this.#number }
    this.#known.set(device.id, known)
    this.#isChanged = true
    return known
  }

  /**
   * Ends a list. The next device begins the next list.
   * @returns the same array as for the list before, if the devices are the same in any order
   * @throws InvalidDeviceListError. No other list can follow
   */
  end(): CheckedDevice[] {
    if (this.#bytes > MAX_LIST_BYTES) throw this.#tooLong()
    if (this.#isChanged || this.#devices.length !== this.#last.length) {
      this.#last = this.#devices
      for (const [id, { list }] of this.#known) if (list !== this.#number) this.#known.delete(id)
    }
    this.#devices = []
    this.#bytes = 0
    this.#isChanged = false
    this.#number++
    return this.#last
  }

  #tooLong(): InvalidDeviceListError {
    let largest: KnownDevice | undefined
    for (const known of this.#known.values())
      if (known.list === this.#number && known.bytes > (largest?.bytes ?? 0)) largest = known
    return new InvalidDeviceListError(
      `the list of ${this.#devices.length} devices takes ${this.#bytes} bytes, more than ` +
        `${MAX_LIST_BYTES}; the largest device is ${quote(largest?.device.id ?? '')}`,
    )
  }
}

function arrayOf(list: unknown): readonly unknown[] {
  if (Array.isArray(list)) return list
  throw new InvalidDeviceListError(`a device list is an array; this is ${typeOf(list)}`)
}

/**
 * Whether the check of a value has a device equal to this one as its result. The order of
 * properties does not count.
 */
function isSameDevice(entry: unknown, { id, properties, mounts, deviceSpecs }: CheckedDevice) {
  return (
    isRecord(entry) &&
    entry.id === id &&
    otherField(entry, FIELDS) === undefined &&
    hasSameProperties(entry.properties ?? NO_PROPERTIES, properties) &&
    hasSameEntries(entry.mounts ?? NO_ENTRIES, mounts, isSameMount) &&
    hasSameEntries(entry.deviceSpecs ?? NO_ENTRIES, deviceSpecs, isSameSpec)
  )
}

// Others for each device of a list would be garbage.
const NO_PROPERTIES = {}
const NO_ENTRIES: readonly unknown[] = []

function hasSameProperties(entry: unknown, properties: CheckedDevice['properties']): boolean {
  if (!isRecord(entry)) return false
  // A list of the names of each device would be garbage.
  let more = 0
  for (const name in entry) {
    if (!Object.hasOwn(entry, name) || entry[name] === undefined) continue
    if (!Object.hasOwn(properties, name) || entry[name] !== properties[name]) return false
    more++
  }
  for (const _ in properties) more--
  return more === 0 && !hidesEntries(entry)
}

/**
 * Whether the entries of an object are no members of it: a Map, Headers, a promise, an object of a
 * class with getters, such as the properties that `discover` gets.
 */
function hidesEntries(value: object): boolean {
  return Symbol.iterator in value || (!isPlain(value) && Object.keys(value).length === 0)
}

/** Whether an object literal makes such an object, or `Object.create(null)`. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  const isBase = prototype === null || Object.getPrototypeOf(prototype) === null
  return isBase && tagOf(value) === 'Object'
}

function hasSameEntries<Entry>(
  entries: unknown,
  before: readonly Entry[],
  isSame: (entry: Readonly<Record<string, unknown>>, before: Entry) => boolean,
): boolean {
  if (!Array.isArray(entries) || entries.length !== before.length) return false
  return before.every((known, index) => {
    const entry: unknown = entries[index]
    return isRecord(entry) && isSame(entry, known)
  })
}

function isSameMount(
  entry: Readonly<Record<string, unknown>>,
  { containerPath, hostPath, readOnly }: CheckedDevice['mounts'][number],
): boolean {
  return (
    entry.containerPath === containerPath &&
    entry.hostPath === hostPath &&
    (entry.readOnly ?? false) === readOnly &&
    otherField(entry, MOUNT_FIELDS) === undefined
  )
}

function isSameSpec(
  entry: Readonly<Record<string, unknown>>,
  { containerPath, hostPath, permissions }: CheckedDevice['deviceSpecs'][number],
): boolean {
  return (
    entry.containerPath === containerPath &&
    entry.hostPath === hostPath &&
    entry.permissions === permissions &&
    otherField(entry, SPEC_FIELDS) === undefined
  )
}

function checkDevice(entry: unknown, index: number): CheckedDevice {
  if (!isRecord(entry))
    throw new InvalidDeviceListError(`device ${index} is ${typeOf(entry)}; it must be an object`)
  const { id } = entry
  if (id === undefined) {
    checkFields(entry, '', FIELDS, (what) => {
      throw new InvalidDeviceListError(`device ${index}: ${what}`)
    })
  }
  if (typeof id !== 'string')
    throw new InvalidDeviceListError(`device ${index}: id is ${typeOf(id)}; it must be a string`)
  if (id === '')
    throw new InvalidDeviceListError(`device ${index}: id is empty; it must identify the device`)
  if (id.length > MAX_ID_LENGTH) {
    throw new InvalidDeviceListError(
      `device ${index}: id has ${id.length} characters, more than ${MAX_ID_LENGTH}: ${quote(id)}`,
    )
  }
  // gRPC replaces such a half: two ids would become the same id.
  if (/\p{Cs}/u.test(id)) {
    throw new InvalidDeviceListError(
      `device ${index}: id ${quote(id)} has half of a surrogate pair; cut texts between characters`,
    )
  }
  const refuse = (what: string): never => {
    throw new InvalidDeviceListError(`device ${quote(id)}: ${what}`)
  }
  checkFields(entry, '', FIELDS, refuse)
  const entries = entriesOf(entry)
  if (entries > MAX_DEVICE_ENTRIES) {
    refuse(`it has ${entries} properties, mounts and device nodes, more than ${MAX_DEVICE_ENTRIES}`)
  }
  return withHash({
    id,
    properties: checkProperties(entry.properties ?? {}, refuse),
    mounts: checkEntries(entry.mounts ?? [], 'mounts', MOUNT_FIELDS, refuse).map(
      ({ containerPath, hostPath, readOnly }, n) => ({
        containerPath: checkPath(containerPath, `mounts[${n}].containerPath`, refuse),
        hostPath: checkPath(hostPath, `mounts[${n}].hostPath`, refuse),
        readOnly:
          typeof (readOnly ?? false) === 'boolean'
            ? readOnly === true
            : refuse(`mounts[${n}].readOnly is ${typeOf(readOnly)}; it must be a boolean`),
      }),
    ),
    deviceSpecs: checkEntries(entry.deviceSpecs ?? [], 'deviceSpecs', SPEC_FIELDS, refuse).map(
      ({ containerPath, hostPath, permissions }, n) => ({
        containerPath: checkPath(containerPath, `deviceSpecs[${n}].containerPath`, refuse),
        hostPath: checkPath(hostPath, `deviceSpecs[${n}].hostPath`, refuse),
        permissions: checkPermissions(permissions, `deviceSpecs[${n}].permissions`, refuse),
      }),
    ),
  })
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
  if (!isRecord(properties) || hidesEntries(properties))
    return refuse(`properties is ${typeOf(properties)}; it must be an object of strings`)
  const checked: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(properties)) {
    // Properties become environment variables, where '=' ends the name.
    if (name === '' || name.includes('=') || name !== printable(name))
      refuse(`property name ${quote(name)} cannot name an environment variable`)
    if (value === undefined) continue
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

function checkEntries(
  list: unknown,
  name: string,
  fields: readonly string[],
  refuse: Refuse,
): Record<string, unknown>[] {
  if (!Array.isArray(list)) return refuse(`${name} is ${typeOf(list)}; it must be an array`)
  // Not `map`, which leaves out the holes of an array.
  return Array.from(list, (entry: unknown, n) => {
    if (!isRecord(entry)) return refuse(`${name}[${n}] is ${typeOf(entry)}; it must be an object`)
    checkFields(entry, `${name}[${n}]: `, fields, refuse)
    return entry
  })
}

/** A misspelt field would be a device without its properties or its device nodes. */
function checkFields(
  entry: Readonly<Record<string, unknown>>,
  where: string,
  fields: readonly string[],
  refuse: Refuse,
): void {
  const other = otherField(entry, fields)
  if (other === undefined) return
  const meant = nearest(other, fields)
  const right = meant === undefined ? `there are ${fields.join(', ')}` : `did you mean ${meant}?`
  refuse(`${where}there is no field ${quote(other)}; ${right}`)
}

/** The first field with a value that is not one of the fields. */
function otherField(
  entry: Readonly<Record<string, unknown>>,
  fields: readonly string[],
): string | undefined {
  // A list of the names of each device would be garbage.
  for (const name in entry)
    if (!fields.includes(name) && Object.hasOwn(entry, name) && entry[name] !== undefined)
      return name
  return undefined
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

function typeOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (typeof value !== 'object') return `a value of type ${typeof value}`
  const tag = tagOf(value)
  if (tag !== 'Object') return `a ${tag}`
  if (Symbol.iterator in value) return 'an iterable object'
  return isPlain(value) ? 'a value of type object' : 'an object of a class'
}

/** `Object` for what an object literal makes, and for the objects of most classes. */
function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1)
}

function quote(whole: string): string {
  const text = maskUrls(whole)
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}
