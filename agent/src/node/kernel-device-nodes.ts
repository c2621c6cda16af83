import { readdirSync, readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { type Clock, systemClock } from '@akrijs/runtime'
import type { DeviceNodes, KernelDevice } from '../ports/device-nodes.js'

/** An entry of /sys/dev: the number of a device, and its directory. */
interface SysfsEntry extends KernelDevice {
  readonly directory: string
  readonly uevent: string
}

/** The major number of USB devices, which have the nodes bus/usb/BBB/DDD. */
const USB_MAJOR = 189
const USB_DEVICES_OF_BUS = 128
/**
 * The time for one read, in milliseconds: the kernel blocks readers of a device that it sets up.
 */
const READ_MS = 5000
/** The most blocked reads: each holds one of the four threads that read files for this process. */
const MAX_READING = 2

/** Device nodes from sysfs, which a container of the agent has without any mount. */
export class KernelDeviceNodes implements DeviceNodes {
  readonly #root: string
  readonly #clock: Pick<Clock, 'sleep'>
  /** The names of devices that were read, by number and directory, which identify a device. */
  #names = new Map<string, string | undefined>()
  /** The reads that the kernel has not answered. */
  readonly #reading = new Map<string, Promise<string | undefined>>()
  #last: Promise<unknown> = Promise.resolve()

  /** @param sysfsRoot @default '/sys' */
  constructor(sysfsRoot = '/sys', clock: Pick<Clock, 'sleep'> = systemClock) {
    this.#root = sysfsRoot
    this.#clock = clock
  }

  /** One search at a time, so that no file is read twice. */
  find(paths: ReadonlySet<string>): Promise<ReadonlyMap<string, KernelDevice>> {
    const search = this.#last.then(() => this.#find(paths))
    this.#last = search.catch(() => undefined)
    return search
  }

  async #find(paths: ReadonlySet<string>): Promise<ReadonlyMap<string, KernelDevice>> {
    const entries = [...this.#entries('char'), ...this.#entries('block')]
    this.#forgetAllBut(entries)
    const byKernelName = new Map<string, SysfsEntry[]>()
    for (const entry of entries) {
      const kernelName = path.posix.basename(entry.directory)
      byKernelName.set(kernelName, [...(byKernelName.get(kernelName) ?? []), entry])
    }
    const found = new Map<string, KernelDevice>()
    for (const node of paths) {
      const name = nameBelowDev(node)
      if (name === undefined) continue
      const usb = usbMinor(name)
      const candidates =
        usb === undefined
          ? kernelNames(name).flatMap((kernelName) => byKernelName.get(kernelName) ?? [])
          : entries.filter(({ major, minor }) => major === USB_MAJOR && minor === usb)
      for (const entry of candidates) {
        // The kernel can block a read of a USB device's file while a hub sets up its devices.
        if (usb === undefined && (await this.#nameOf(entry)) !== name) continue
        const { type, major, minor } = entry
        found.set(node, { type, major, minor })
        break
      }
    }
    return found
  }

  #entries(type: KernelDevice['type']): SysfsEntry[] {
    const directory = path.join(this.#root, 'dev', type)
    return listed(directory).flatMap((entry) => {
      const [, major, minor] = /^(\d+):(\d+)$/.exec(entry) ?? []
      const target = linkTarget(path.join(directory, entry))
      if (major === undefined || minor === undefined || target === undefined) return []
      return {
        type,
        major: Number(major),
        minor: Number(minor),
        directory: target,
        uevent: path.join(directory, entry, 'uevent'),
      }
    })
  }

  /** The name of a node below /dev. */
  async #nameOf(entry: SysfsEntry): Promise<string | undefined> {
    const key = keyOf(entry)
    if (!this.#names.has(key)) {
      const text = await this.#read(key, entry.uevent)
      // The device has gone, or does not answer.
      if (text === undefined) return undefined
      this.#names.set(key, /^DEVNAME=(.+)$/m.exec(text)?.[1])
    }
    return this.#names.get(key)
  }

  /** Reads a file of sysfs. @returns undefined if that is not possible now */
  async #read(key: string, file: string): Promise<string | undefined> {
    if (!this.#reading.has(key) && this.#reading.size >= MAX_READING) return undefined
    const reading =
      this.#reading.get(key) ??
      readFile(file, 'utf8')
        .catch(() => undefined)
        .finally(() => this.#reading.delete(key))
    this.#reading.set(key, reading)
    const over = new AbortController()
    const limit = this.#clock.sleep(READ_MS, over.signal).catch(() => undefined)
    try {
      return await Promise.race([reading, limit.then(() => undefined)])
    } finally {
      over.abort()
    }
  }

  #forgetAllBut(entries: readonly SysfsEntry[]): void {
    const present = new Set(entries.map(keyOf))
    this.#names = new Map([...this.#names].filter(([key]) => present.has(key)))
  }
}

function keyOf({ type, major, minor, directory }: SysfsEntry): string {
  return `${type} ${major}:${minor} ${directory}`
}

function nameBelowDev(node: string): string | undefined {
  return node.startsWith('/dev/') ? node.slice('/dev/'.length) : undefined
}

/** The directories that the device of a node can have: in sysfs, `!` stands for `/`. */
function kernelNames(name: string): string[] {
  return [...new Set([path.posix.basename(name), name.replaceAll('/', '!')])]
}

function usbMinor(name: string): number | undefined {
  const [, bus, device] = /^bus\/usb\/(\d{3})\/(\d{3})$/.exec(name) ?? []
  return bus === undefined || device === undefined
    ? undefined
    : (Number(bus) - 1) * USB_DEVICES_OF_BUS + Number(device) - 1
}

function listed(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function linkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}
