import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
} from 'node:fs'
import path from 'node:path'
import type { DeviceView } from './device-view.js'

export interface SysfsRoots {
  /** @default '/sys' */
  readonly sysfsRoot: string
  /** Where udevd keeps what it knows. @default '/run/udev' */
  readonly runUdevRoot: string
}

export const SYSTEM_ROOTS: SysfsRoots = { sysfsRoot: '/sys', runUdevRoot: '/run/udev' }

/** Which devices to look at. What is left out is not even read. */
export interface ScanFilter {
  subsystem(name: string): boolean
  kernel(name: string): boolean
}

/** As much of a sysfs attribute as is read: the kernel gives one page. */
const MAX_ATTRIBUTE_BYTES = 4096
/** The largest file of udev's database that is read, in bytes. */
const MAX_DATABASE_BYTES = 1024 * 1024

/**
 * One look at the devices of the machine: each is read at most once, and what was read stays as it was then. The order in
 * which directories are looked at, and what makes a directory a device, are libudev's.
 */
export class SysfsScan {
  readonly roots: SysfsRoots
  readonly #devices = new Map<string, SysfsDevice | undefined>()
  readonly #entries = new Map<string, readonly string[]>()
  readonly #targets = new Map<string, string | undefined>()

  constructor(roots: SysfsRoots = SYSTEM_ROOTS) {
    this.roots = roots
  }

  /** The devices of all buses and classes that pass the filter, in order of their paths. */
  devices(filter: ScanFilter): SysfsDevice[] {
    const found = new Map<string, SysfsDevice>()
    for (const directory of this.#directories(filter)) {
      for (const name of this.#list(directory)) {
        if (!filter.kernel(kernelName(name))) continue
        const devpath = this.#target(path.join(directory, name))
        const device =
          devpath === undefined || found.has(devpath) ? undefined : this.device(devpath)
        if (device !== undefined) found.set(device.devpath, device)
      }
    }
    return [...found.values()].sort((a, b) => (a.devpath < b.devpath ? -1 : 1))
  }

  /** The device at this path below `/sys`, if there is one. */
  device(devpath: string): SysfsDevice | undefined {
    if (this.#devices.has(devpath)) return this.#devices.get(devpath)
    // What makes a directory below /sys/devices a device is its uevent file. It is not read before something of it is asked
    // for: the kernel has a reader of a USB hub's wait until all that was plugged into that hub is set up.
    const isDevice = isReadable(path.join(this.roots.sysfsRoot, devpath, 'uevent'))
    const device = isDevice ? new SysfsDevice(this, devpath) : undefined
    this.#devices.set(devpath, device)
    return device
  }

  /** The nearest device above this path. */
  parentOf(devpath: string): SysfsDevice | undefined {
    for (
      let up = path.dirname(devpath);
      up !== '/devices' && up.startsWith('/devices/');
      up = path.dirname(up)
    ) {
      const device = this.device(up)
      if (device !== undefined) return device
    }
    return undefined
  }

  *#directories({ subsystem }: ScanFilter): Generator<string> {
    const { sysfsRoot: sysfs } = this.roots
    // Where the kernel has /sys/subsystem, it takes the place of the other two.
    const subsystems = path.join(sysfs, 'subsystem')
    const buses = existsSync(subsystems) ? subsystems : path.join(sysfs, 'bus')
    for (const name of this.#list(buses))
      if (subsystem(name)) yield path.join(buses, name, 'devices')
    if (buses === subsystems) return
    for (const name of this.#list(path.join(sysfs, 'class')))
      if (subsystem(name)) yield path.join(sysfs, 'class', name)
  }

  #list(directory: string): readonly string[] {
    const known = this.#entries.get(directory)
    if (known !== undefined) return known
    const entries = list(directory)
    this.#entries.set(directory, entries)
    return entries
  }

  /** Where an entry of a bus or class leads, as a path below the root of sysfs. */
  #target(entry: string): string | undefined {
    if (this.#targets.has(entry)) return this.#targets.get(entry)
    const link = readLink(entry)
    const devpath =
      link && `/${path.relative(this.roots.sysfsRoot, path.resolve(path.dirname(entry), link))}`
    const target = devpath?.startsWith('/devices/') ? devpath : undefined
    this.#targets.set(entry, target)
    return target
  }
}

export class SysfsDevice implements DeviceView {
  readonly devpath: string
  readonly #scan: SysfsScan
  #fromKernel: ReadonlyMap<string, string> | 'gone' | undefined
  #properties: ReadonlyMap<string, string> | undefined
  #database: Database | undefined

  constructor(scan: SysfsScan, devpath: string) {
    this.#scan = scan
    this.devpath = devpath
  }

  /** False once the device is known to have gone since the look at it began. */
  get present(): boolean {
    return this.#readUevent() !== 'gone'
  }

  get kernel(): string {
    return kernelName(path.basename(this.devpath))
  }

  get subsystem(): string | undefined {
    return this.#linkName('subsystem')
  }

  get driver(): string | undefined {
    return this.#linkName('driver')
  }

  get devnode(): string | undefined {
    return deviceNode(this.#kernelProperties.get('DEVNAME'))
  }

  get tags(): ReadonlySet<string> {
    return this.#readDatabase().currentTags
  }

  get parent(): SysfsDevice | undefined {
    return this.#scan.parentOf(this.devpath)
  }

  get properties(): ReadonlyMap<string, string> {
    this.#properties ??= this.#readProperties()
    return this.#properties
  }

  attribute(name: string): string | undefined {
    const file = path.join(this.#syspath, name)
    const stat = lstatSync(file, { throwIfNoEntry: false })
    if (stat === undefined) return undefined
    // sd_device_get_sysattr_value(): of links only these three, by the name that they lead to.
    if (stat.isSymbolicLink())
      return name === 'driver' || name === 'subsystem' || name === 'module'
        ? this.#linkName(name)
        : undefined
    if (!stat.isFile() || (stat.mode & 0o400) === 0) return undefined
    const text = read(file, MAX_ATTRIBUTE_BYTES)
    return text?.split('\0')[0]?.replace(/[\r\n]+$/, '')
  }

  /** Where a link of the device leads, such as `iommu_group`: the last component. */
  linkName(name: string): string | undefined {
    return this.#linkName(name)
  }

  get #syspath(): string {
    return path.join(this.#scan.roots.sysfsRoot, this.devpath)
  }

  get #kernelProperties(): ReadonlyMap<string, string> {
    const properties = this.#readUevent()
    return properties === 'gone' ? new Map() : properties
  }

  #readUevent(): ReadonlyMap<string, string> | 'gone' {
    if (this.#fromKernel === undefined) {
      const text = read(path.join(this.#syspath, 'uevent'), MAX_ATTRIBUTE_BYTES)
      this.#fromKernel = text === undefined ? 'gone' : new Map(text.split('\n').flatMap(assignment))
    }
    return this.#fromKernel
  }

  #linkName(name: string): string | undefined {
    const link = readLink(path.join(this.#syspath, name))
    return link === undefined ? undefined : path.basename(link)
  }

  #readProperties(): Map<string, string> {
    const properties = new Map(this.#kernelProperties)
    properties.set('DEVPATH', this.devpath)
    const { subsystem, devnode } = this
    if (subsystem !== undefined) properties.set('SUBSYSTEM', subsystem)
    if (devnode !== undefined) properties.set('DEVNAME', devnode)
    else properties.delete('DEVNAME')
    const database = this.#readDatabase()
    for (const [name, value] of database.properties) properties.set(name, value)
    if (database.initialized !== undefined) properties.set('USEC_INITIALIZED', database.initialized)
    if (database.links.length > 0)
      properties.set('DEVLINKS', database.links.map((link) => `/dev/${link}`).join(' '))
    if (database.tags.size > 0) properties.set('TAGS', `:${[...database.tags].join(':')}:`)
    if (database.currentTags.size > 0)
      properties.set('CURRENT_TAGS', `:${[...database.currentTags].join(':')}:`)
    return properties
  }

  #readDatabase(): Database {
    this.#database ??= readDatabase(
      path.join(this.#scan.roots.runUdevRoot, 'data', this.#databaseName()),
    )
    return this.#database
  }

  /** device_get_device_id(): by number where the device has one, else by its name. */
  #databaseName(): string {
    const properties = this.#kernelProperties
    const [major, minor, index] = [
      properties.get('MAJOR'),
      properties.get('MINOR'),
      properties.get('IFINDEX'),
    ]
    if (major !== undefined && minor !== undefined && isNumber(major) && isNumber(minor)) {
      return `${this.subsystem === 'block' ? 'b' : 'c'}${major}:${minor}`
    }
    if (index !== undefined && isNumber(index)) return `n${index}`
    return `+${this.subsystem ?? ''}:${path.basename(this.devpath)}`
  }
}

/** What udevd wrote about a device. */
interface Database {
  readonly properties: ReadonlyMap<string, string>
  readonly links: readonly string[]
  readonly tags: ReadonlySet<string>
  readonly currentTags: ReadonlySet<string>
  readonly initialized: string | undefined
}

const NO_DATABASE: Database = {
  properties: new Map(),
  links: [],
  tags: new Set(),
  currentTags: new Set(),
  initialized: undefined,
}

function readDatabase(file: string): Database {
  const text = read(file, MAX_DATABASE_BYTES)
  if (text === undefined) return NO_DATABASE
  const properties = new Map<string, string>()
  const links: string[] = []
  const tags = new Set<string>()
  const current = new Set<string>()
  let initialized: string | undefined
  let version = 0
  for (const line of text.split('\n')) {
    const value = line.slice(2)
    if (line.startsWith('E:'))
      for (const [name, text] of assignment(value)) properties.set(name, text)
    if (line.startsWith('S:')) links.push(value)
    if (line.startsWith('G:')) tags.add(value)
    if (line.startsWith('Q:')) current.add(value)
    if (line.startsWith('I:')) initialized = value
    if (line.startsWith('V:')) version = Number(value)
  }
  // Before version 1 of the database every tag was a current one.
  return {
    properties,
    links,
    tags,
    currentTags: version >= 1 || current.size > 0 ? current : tags,
    initialized,
  }
}

/** `KEY=value`, as a list of one, or of none. */
function assignment(line: string): [string, string][] {
  const at = line.indexOf('=')
  return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : []
}

/** In file names of sysfs a `!` stands for a `/` of the name. */
function kernelName(file: string): string {
  return file.replaceAll('!', '/')
}

/** The kernel names nodes relative to /dev. A name that could lead out of it is nobody's device. */
function deviceNode(name: string | undefined): string | undefined {
  if (name === undefined || name === '') return undefined
  const node = name.startsWith('/') ? name : `/dev/${name}`
  const clean = path.posix.normalize(node) === node && !node.endsWith('/') && !node.includes('\0')
  return clean && node.startsWith('/dev/') ? node : undefined
}

function isNumber(text: string): boolean {
  return /^\d{1,10}$/.test(text)
}

// Devices vanish while they are looked at: whatever cannot be read is not there.

function list(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function isReadable(file: string): boolean {
  try {
    return (lstatSync(file).mode & 0o400) !== 0
  } catch {
    return false
  }
}

function readLink(file: string): string | undefined {
  try {
    return readlinkSync(file)
  } catch {
    return undefined
  }
}

function read(file: string, limit: number): string | undefined {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch {
    return undefined
  }
  try {
    if (limit > MAX_ATTRIBUTE_BYTES) return readFileSync(descriptor, 'utf8').slice(0, limit)
    const buffer = Buffer.allocUnsafe(limit)
    return buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, limit, 0))
  } catch {
    return undefined
  } finally {
    closeSync(descriptor)
  }
}
