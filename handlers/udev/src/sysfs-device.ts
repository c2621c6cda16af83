import path from 'node:path'
import { hasBytes } from './byte-text.js'
import type { DeviceView } from './device-view.js'
import { isReadable, readLink, readStat, readText } from './sysfs-files.js'
import { parseUdevRecord, type StaleRecords, type UdevRecord } from './udev-database.js'
import { readAssignment } from './uevent-message.js'

/** The limit of a file of the database of udev, in bytes. */
const MAX_RECORD_BYTES = 1024 * 1024

/** The surroundings of a device. */
export interface DeviceSurroundings {
  readonly roots: { readonly sysfsRoot: string; readonly runUdevRoot: string }
  /** Whether the records of udev about network links are about the links of this namespace. */
  readonly sharesNetwork: boolean
  readonly stale: StaleRecords
  parentOf(devpath: string): SysfsDevice | undefined
}

/** A value of a device, as it was read last. */
interface ReadValue {
  readonly text: string | undefined
  /** When the file was written, with the clock of the machine. */
  readonly writtenMs?: number
}

/** A device from its appearance to its disappearance. Reads each value on the first access. */
export class SysfsDevice implements DeviceView {
  readonly devpath: string
  readonly #around: DeviceSurroundings
  /** Uevent first, then the others: `uevent`, `record`, `driver`, `attribute <name>`. */
  readonly #values = new Map<string, ReadValue>()
  #subsystem: { readonly name: string | undefined } | undefined
  #kernelProperties: ReadonlyMap<string, string> | undefined
  #properties: ReadonlyMap<string, string> | undefined
  #record: UdevRecord | undefined

  constructor(around: DeviceSurroundings, devpath: string) {
    this.#around = around
    this.devpath = devpath
  }

  /** False if the device disappeared after the last look. */
  get present(): boolean {
    return this.#text('uevent') !== undefined
  }

  get kernel(): string {
    return kernelName(path.basename(this.devpath))
  }

  get subsystem(): string | undefined {
    this.#subsystem ??= { name: this.#linkName('subsystem') }
    return this.#subsystem.name
  }

  get driver(): string | undefined {
    return this.linkName('driver')
  }

  get devnode(): string | undefined {
    return deviceNode(this.#fromKernel.get('DEVNAME'))
  }

  get tags(): ReadonlySet<string> {
    return this.#fromUdev.currentTags
  }

  get parent(): SysfsDevice | undefined {
    return this.#around.parentOf(this.devpath)
  }

  get properties(): ReadonlyMap<string, string> {
    this.#properties ??= this.#allProperties()
    return this.#properties
  }

  /**
   * Whether udevd prepares the device for use. As for libudev, a device without a node and a number
   * of a link is always ready (sd-device, match_initialized), and a link of another network than
   * udevd's.
   */
  get needsUdevd(): boolean {
    const properties = this.#fromKernel
    return properties.has('DEVNAME') || (properties.has('IFINDEX') && this.#around.sharesNetwork)
  }

  /**
   * Whether udevd marked the record because it runs programs for the device (`RUN`). It writes
   * the record first, so a program can set the permissions of the node later. systemd 256 and later
   * mark such a record (systemd, pull request 30138).
   */
  get isProcessing(): boolean {
    return this.#fromUdev.properties.get('ID_PROCESSING') === '1'
  }

  /** When udevd wrote the record of the device, with the clock of the machine. */
  get recordWrittenMs(): number | undefined {
    return this.hasRecord ? this.#values.get('record')?.writtenMs : undefined
  }

  /** When udevd processed the device first: CLOCK_MONOTONIC, in milliseconds. */
  get initializedMs(): number | undefined {
    const usec = Number(this.#fromUdev.initialized ?? Number.NaN)
    return Number.isFinite(usec) ? usec / 1000 : undefined
  }

  /** Whether udevd wrote a record about the device. */
  get hasRecord(): boolean {
    return this.#text('record') !== undefined
  }

  attribute(name: string): string | undefined {
    return this.#text(`attribute ${name}`)
  }

  /** The last component of the target of a link, such as `iommu_group`. */
  linkName(name: string): string | undefined {
    return this.#text(`link ${name}`)
  }

  /**
   * The node of an IOMMU group. The kernel names it otherwise where VFIO works without an IOMMU
   * (vfio_group_alloc() in drivers/vfio/group.c).
   */
  vfioNode(group: string): string {
    const name = `noiommu-${group}`
    const entry = path.join(this.#around.roots.sysfsRoot, 'class/vfio', name, 'uevent')
    return `/dev/vfio/${isReadable(entry) ? name : group}`
  }

  /** Reads all values again that were read before. */
  refresh(): 'same' | 'changed' | 'gone' {
    let changed = false
    for (const [key, before] of this.#values) {
      const now = this.#read(key)
      if (now.text !== before.text) {
        changed = true
        this.#kernelProperties = undefined
        this.#properties = undefined
        this.#record = undefined
      }
      this.#values.set(key, now)
    }
    const uevent = this.#values.get('uevent')
    const isHere =
      uevent === undefined
        ? isReadable(path.join(this.#syspath, 'uevent'))
        : uevent.text !== undefined
    if (!isHere) return 'gone'
    return changed ? 'changed' : 'same'
  }

  /** The device disappeared: a later device with its number has another record. */
  depart(): void {
    const record = this.#values.get('record')?.text
    // Without a time, records of two devices can be equal.
    if (record !== undefined && this.#fromUdev.initialized !== undefined)
      this.#around.stale.add(this.#recordName(), record)
  }

  get #syspath(): string {
    return path.join(this.#around.roots.sysfsRoot, this.devpath)
  }

  get #fromKernel(): ReadonlyMap<string, string> {
    this.#kernelProperties ??= new Map(
      (this.#text('uevent') ?? '').split('\n').flatMap(readAssignment),
    )
    return this.#kernelProperties
  }

  get #fromUdev(): UdevRecord {
    this.#record ??= parseUdevRecord(this.#text('record') ?? '')
    return this.#record
  }

  #allProperties(): Map<string, string> {
    const properties = new Map(this.#fromKernel)
    properties.set('DEVPATH', this.devpath)
    const { subsystem, devnode } = this
    if (subsystem !== undefined) properties.set('SUBSYSTEM', subsystem)
    if (devnode !== undefined) properties.set('DEVNAME', devnode)
    else properties.delete('DEVNAME')
    const record = this.#fromUdev
    for (const [name, value] of record.properties) properties.set(name, value)
    if (record.initialized !== undefined) properties.set('USEC_INITIALIZED', record.initialized)
    if (record.links.length > 0)
      properties.set('DEVLINKS', record.links.map((link) => `/dev/${link}`).join(' '))
    if (record.tags.size > 0) properties.set('TAGS', `:${[...record.tags].join(':')}:`)
    if (record.currentTags.size > 0)
      properties.set('CURRENT_TAGS', `:${[...record.currentTags].join(':')}:`)
    return properties
  }

  #text(key: string): string | undefined {
    let value = this.#values.get(key)
    if (value === undefined) {
      value = this.#read(key)
      this.#values.set(key, value)
    }
    return value.text
  }

  #read(key: string): ReadValue {
    if (key === 'record') return this.#readRecord()
    const [kind, name = ''] = key.split(/ (.*)/s)
    const text =
      kind === 'uevent'
        ? readText(path.join(this.#syspath, 'uevent'))
        : kind === 'link'
          ? this.#linkName(name)
          : this.#readAttribute(name)
    return { text }
  }

  #readAttribute(name: string): string | undefined {
    const file = path.join(this.#syspath, name)
    const stat = readStat(file)
    if (stat === undefined) return undefined
    // sd_device_get_sysattr_value(): of all links, only these three have a value, the name of the
    // target.
    if (stat.isSymbolicLink())
      return name === 'driver' || name === 'subsystem' || name === 'module'
        ? this.#linkName(name)
        : undefined
    if (!stat.isFile() || (stat.mode & 0o400) === 0) return undefined
    // Linear: without the first part, each of many line feeds would be a start.
    return readText(file)
      ?.split('\0')[0]
      ?.replace(/(?<![\r\n])[\r\n]+$/, '')
  }

  #linkName(name: string): string | undefined {
    const link = readLink(path.join(this.#syspath, name))
    return link === undefined ? undefined : path.basename(link)
  }

  #readRecord(): ReadValue {
    const absent = { text: undefined }
    if (this.#fromKernel.has('IFINDEX') && !this.#around.sharesNetwork) return absent
    const name = this.#recordName()
    const file = path.join(this.#around.roots.runUdevRoot, 'data', name)
    const writtenMs = readStat(file)?.mtimeMs
    const text = readText(file, MAX_RECORD_BYTES)
    if (text === undefined || writtenMs === undefined) return absent
    return this.#around.stale.has(name, text) ? absent : { text, writtenMs }
  }

  /** device_get_device_id(): the number of the device, or its name if it has no number. */
  #recordName(): string {
    const properties = this.#fromKernel
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

/**
 * The kernel names nodes relative to /dev. A name that leads out of /dev is ignored, and a name
 * that is not UTF-8, which Kubernetes cannot write.
 */
function deviceNode(name: string | undefined): string | undefined {
  if (name === undefined || name === '' || hasBytes(name)) return undefined
  const node = name.startsWith('/') ? name : `/dev/${name}`
  const clean = path.posix.normalize(node) === node && !node.endsWith('/') && !node.includes('\0')
  return clean && node.startsWith('/dev/') ? node : undefined
}

function isNumber(text: string): boolean {
  return /^\d{1,10}$/.test(text)
}
