import { existsSync, lstatSync } from 'node:fs'
import path from 'node:path'
import type { DeviceView } from './device-view.js'
import { isReadable, listDirectory, readLink, readText } from './sysfs-files.js'
import { readUdevRecord, type UdevRecord } from './udev-database.js'
import { readAssignment } from './uevent-message.js'

export interface SysfsRoots {
  /** @default '/sys' */
  readonly sysfsRoot: string
  /** The directory of the database of udevd. @default '/run/udev' */
  readonly runUdevRoot: string
}

export const SYSTEM_ROOTS: SysfsRoots = { sysfsRoot: '/sys', runUdevRoot: '/run/udev' }

/** Selects the devices of a scan. The scan does not read any other device. */
export interface ScanFilter {
  subsystem(name: string): boolean
  kernel(name: string): boolean
}

/**
 * A scan of the devices of the machine: reads each device at most once, and keeps the result. The
 * order of directories, and the criterion for a device, are those of libudev.
 */
export class SysfsScan {
  readonly roots: SysfsRoots
  readonly #devices = new Map<string, SysfsDevice | undefined>()
  readonly #entries = new Map<string, readonly string[]>()
  readonly #targets = new Map<string, string | undefined>()

  constructor(roots: SysfsRoots) {
    this.roots = roots
  }

  /** The selected devices of all buses and classes, in the order of paths. */
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

  /** The device at this path below `/sys`, if any. */
  device(devpath: string): SysfsDevice | undefined {
    if (this.#devices.has(devpath)) return this.#devices.get(devpath)
    // A directory below /sys/devices is a device if it has a uevent file. The file is only read on
    // demand: a read of a USB hub's file blocks while the kernel sets up the devices behind the
    // hub.
    const isDevice = isReadable(path.join(this.roots.sysfsRoot, devpath, 'uevent'))
    const device = isDevice ? new SysfsDevice(this, devpath) : undefined
    this.#devices.set(devpath, device)
    return device
  }

  /** The nearest ancestor device. */
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
    // If the kernel has /sys/subsystem, it replaces the other two directories.
    const subsystems = path.join(sysfs, 'subsystem')
    const buses = existsSync(subsystems) ? subsystems : path.join(sysfs, 'bus')
    for (const name of this.#list(buses))
      if (subsystem(name)) yield path.join(buses, name, 'devices')
    if (buses === subsystems) return
    for (const name of this.#list(path.join(sysfs, 'class')))
      if (subsystem(name)) yield path.join(sysfs, 'class', name)
  }

  #list(directory: string): readonly string[] {
    const cached = this.#entries.get(directory)
    if (cached !== undefined) return cached
    const entries = listDirectory(directory)
    this.#entries.set(directory, entries)
    return entries
  }

  /** The target of an entry of a bus or class, as a path below the root of sysfs. */
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
  #record: UdevRecord | undefined

  constructor(scan: SysfsScan, devpath: string) {
    this.#scan = scan
    this.devpath = devpath
  }

  /** False if the device disappeared after the scan started. */
  get present(): boolean {
    return this.#readUevent() !== 'gone'
  }

  get kernel(): string {
    return kernelName(path.basename(this.devpath))
  }

  get subsystem(): string | undefined {
    return this.linkName('subsystem')
  }

  get driver(): string | undefined {
    return this.linkName('driver')
  }

  get devnode(): string | undefined {
    return deviceNode(this.#kernelProperties.get('DEVNAME'))
  }

  get tags(): ReadonlySet<string> {
    return this.#readRecord().currentTags
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
    // sd_device_get_sysattr_value(): of all links, only these three have a value, the name of the
    // target.
    if (stat.isSymbolicLink())
      return name === 'driver' || name === 'subsystem' || name === 'module'
        ? this.linkName(name)
        : undefined
    if (!stat.isFile() || (stat.mode & 0o400) === 0) return undefined
    const text = readText(file)
    return text?.split('\0')[0]?.replace(/[\r\n]+$/, '')
  }

  /** The last component of the target of a link, such as `iommu_group`. */
  linkName(name: string): string | undefined {
    const link = readLink(path.join(this.#syspath, name))
    return link === undefined ? undefined : path.basename(link)
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
      const text = readText(path.join(this.#syspath, 'uevent'))
      this.#fromKernel =
        text === undefined ? 'gone' : new Map(text.split('\n').flatMap(readAssignment))
    }
    return this.#fromKernel
  }

  #readProperties(): Map<string, string> {
    const properties = new Map(this.#kernelProperties)
    properties.set('DEVPATH', this.devpath)
    const { subsystem, devnode } = this
    if (subsystem !== undefined) properties.set('SUBSYSTEM', subsystem)
    if (devnode !== undefined) properties.set('DEVNAME', devnode)
    else properties.delete('DEVNAME')
    const record = this.#readRecord()
    for (const [name, value] of record.properties) properties.set(name, value)
    if (record.initialized !== undefined) properties.set('USEC_INITIALIZED', record.initialized)
    if (record.links.length > 0)
      properties.set('DEVLINKS', record.links.map((link) => `/dev/${link}`).join(' '))
    if (record.tags.size > 0) properties.set('TAGS', `:${[...record.tags].join(':')}:`)
    if (record.currentTags.size > 0)
      properties.set('CURRENT_TAGS', `:${[...record.currentTags].join(':')}:`)
    return properties
  }

  #readRecord(): UdevRecord {
    this.#record ??= readUdevRecord(
      path.join(this.#scan.roots.runUdevRoot, 'data', this.#databaseName()),
    )
    return this.#record
  }

  /** device_get_device_id(): the number of the device, or its name if it has no number. */
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

/** In a file name of sysfs, `!` stands for `/`. */
function kernelName(file: string): string {
  return file.replaceAll('!', '/')
}

/** The kernel names nodes relative to /dev. A name that leads out of /dev is ignored. */
function deviceNode(name: string | undefined): string | undefined {
  if (name === undefined || name === '') return undefined
  const node = name.startsWith('/') ? name : `/dev/${name}`
  const clean = path.posix.normalize(node) === node && !node.endsWith('/') && !node.includes('\0')
  return clean && node.startsWith('/dev/') ? node : undefined
}

function isNumber(text: string): boolean {
  return /^\d{1,10}$/.test(text)
}
