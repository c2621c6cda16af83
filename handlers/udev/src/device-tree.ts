import { existsSync } from 'node:fs'
import path from 'node:path'
import { inTurns } from '@akrijs/sdk'
import { ancestorsOf, isWithinAny } from './devpath.js'
import { udevdSharesNetwork } from './network-namespace.js'
import { SysfsDevice } from './sysfs-device.js'
import { isReadable, listDirectory, readLink, readStat } from './sysfs-files.js'
import { StaleRecords } from './udev-database.js'

export interface SysfsRoots {
  /** @default '/sys' */
  readonly sysfsRoot: string
  /** The directory of the database of udevd. @default '/run/udev' */
  readonly runUdevRoot: string
}

export const SYSTEM_ROOTS: SysfsRoots = { sysfsRoot: '/sys', runUdevRoot: '/run/udev' }

/** A device that may have changed. */
export interface TouchedDevice {
  readonly subsystem: string
  /** The device disappeared in the meantime. A device at the same path is another device. */
  readonly removed: boolean
}

/**
 * The devices of the machine as they were at the last look. A value of a device is read on the
 * first access, and again at later looks. The criterion for a device is that of libudev.
 */
export class DeviceTree {
  readonly roots: SysfsRoots
  readonly stale = new StaleRecords()
  /** Devices, and directories that are no devices. */
  readonly #read = new Map<string, SysfsDevice | undefined>()
  #listed = new Set<string>()
  #sharesNetwork: boolean | undefined

  constructor(roots: SysfsRoots) {
    this.roots = roots
  }

  /** The paths of the devices of all buses and classes. */
  get listed(): ReadonlySet<string> {
    return this.#listed
  }

  /** The device at this path below `/sys`, if any. */
  device(devpath: string): SysfsDevice | undefined {
    if (this.#read.has(devpath)) return this.#read.get(devpath)
    const device = this.#isDevice(devpath) ? new SysfsDevice(this, devpath) : undefined
    this.#read.set(devpath, device)
    return device
  }

  /** The nearest ancestor device. */
  parentOf(devpath: string): SysfsDevice | undefined {
    for (const ancestor of ancestorsOf(devpath)) {
      const device = this.device(ancestor)
      if (device !== undefined) return device
    }
    return undefined
  }

  get sharesNetwork(): boolean {
    this.#sharesNetwork ??= udevdSharesNetwork(this.roots.runUdevRoot)
    return this.#sharesNetwork
  }

  /**
   * Looks at all buses and classes, and at everything that was read before.
   * @returns the paths of devices that changed, appeared or disappeared, or that are below these
   */
  async lookAtAll(): Promise<ReadonlySet<string>> {
    // A udevd that starts later can share the network; a udevd that ended did so before.
    if (!this.#sharesNetwork) this.#sharesNetwork = undefined
    const changed = new Set<string>()
    const present = new Set<string>()
    for (const directory of this.#directories()) {
      for await (const name of inTurns(listDirectory(directory))) {
        const devpath = this.#target(path.join(directory, name))
        if (devpath !== undefined) present.add(devpath)
      }
    }
    for (const devpath of [...this.#listed])
      if (!present.has(devpath)) this.#remove(devpath, changed)
    for await (const devpath of inTurns([...this.#read.keys()])) {
      this.#refresh(devpath, changed)
    }
    for await (const devpath of inTurns(present)) {
      this.#list(devpath, changed)
    }
    return this.#withDescendants(changed)
  }

  /**
   * Looks at devices, and at all devices above and below them.
   * @returns the paths of devices that changed, appeared or disappeared, or that are below these
   */
  async lookAt(touched: ReadonlyMap<string, TouchedDevice>): Promise<ReadonlySet<string>> {
    const changed = new Set<string>()
    for (const [devpath, { removed }] of touched) {
      if (removed && this.#listed.has(devpath)) this.#remove(devpath, changed)
    }
    const above = new Set([...touched.keys()].flatMap((devpath) => [...ancestorsOf(devpath)]))
    for await (const devpath of inTurns([...this.#read.keys()])) {
      if (above.has(devpath) || isWithinAny(devpath, touched)) this.#refresh(devpath, changed)
    }
    for await (const [devpath, { subsystem }] of inTurns(touched)) {
      if (this.#hasEntry(devpath, subsystem)) this.#list(devpath, changed)
      else if (this.#listed.has(devpath)) this.#remove(devpath, changed)
    }
    return this.#withDescendants(changed)
  }

  #list(devpath: string, changed: Set<string>): void {
    if (this.#listed.has(devpath) || this.device(devpath) === undefined) return
    this.#listed.add(devpath)
    changed.add(devpath)
  }

  #remove(devpath: string, changed: Set<string>): void {
    this.#listed.delete(devpath)
    this.#read.get(devpath)?.depart()
    this.#read.delete(devpath)
    changed.add(devpath)
  }

  #refresh(devpath: string, changed: Set<string>): void {
    const device = this.#read.get(devpath)
    const state = device === undefined ? this.#stateOfOther(devpath) : device.refresh()
    if (state === 'gone') this.#remove(devpath, changed)
    else if (state === 'changed') changed.add(devpath)
  }

  /** Looks at a directory that was no device. Forgets it if it disappeared. */
  #stateOfOther(devpath: string): 'same' | 'gone' {
    if (this.#isDevice(devpath)) return 'gone'
    // A device that comes again can have a new path each time, such as those of HID.
    const directory = readStat(path.join(this.roots.sysfsRoot, devpath))
    if (directory === undefined) this.#read.delete(devpath)
    return 'same'
  }

  /**
   * A directory below /sys/devices is a device if it has a uevent file. The file is only read on
   * demand: a read of a USB hub's file blocks while the kernel sets up the devices behind the hub.
   */
  #isDevice(devpath: string): boolean {
    return isReadable(path.join(this.roots.sysfsRoot, devpath, 'uevent'))
  }

  #directories(): string[] {
    const { sysfsRoot: sysfs } = this.roots
    const [buses = '', classes] = subsystemDirectories(sysfs)
    return [
      ...listDirectory(buses).map((name) => path.join(buses, name, 'devices')),
      ...(classes === undefined
        ? []
        : listDirectory(classes).map((name) => path.join(classes, name))),
    ]
  }

  /** Whether a bus or class has the device. */
  #hasEntry(devpath: string, subsystem: string): boolean {
    const [buses = '', classes] = subsystemDirectories(this.roots.sysfsRoot)
    const name = path.basename(devpath)
    return (
      this.#target(path.join(buses, subsystem, 'devices', name)) === devpath ||
      (classes !== undefined && this.#target(path.join(classes, subsystem, name)) === devpath)
    )
  }

  /** The target of an entry of a bus or class, as a path below the root of sysfs. */
  #target(entry: string): string | undefined {
    const link = readLink(entry)
    const devpath =
      link && `/${path.relative(this.roots.sysfsRoot, path.resolve(path.dirname(entry), link))}`
    return devpath?.startsWith('/devices/') ? devpath : undefined
  }

  async #withDescendants(changed: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const all = new Set(changed)
    if (changed.size === 0) return all
    for await (const devpath of inTurns(this.#listed)) {
      if (isWithinAny(devpath, changed)) all.add(devpath)
    }
    return all
  }
}

/** If the kernel has /sys/subsystem, it replaces the other two directories. */
function subsystemDirectories(sysfs: string): string[] {
  const subsystems = path.join(sysfs, 'subsystem')
  return existsSync(subsystems)
    ? [subsystems]
    : [path.join(sysfs, 'bus'), path.join(sysfs, 'class')]
}
