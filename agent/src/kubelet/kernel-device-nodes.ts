import { readdirSync, readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { type Clock, systemClock } from '@akrijs/runtime'
import type { DeviceNodes, FoundNodes } from '../access/handler-access.js'

/** A device in /sys/dev. */
interface KernelDevice {
  /** Its type, number and directory, which identify the device. */
  readonly key: string
  /** The last component of its directory. */
  readonly directory: string
  readonly uevent: string
}

/** The numbers of USB devices, which have the nodes bus/usb/BBB/DDD: 128 for each bus. */
const USB_NUMBER = /^char 189:(\d+)$/
/** For some reads, in milliseconds: the kernel blocks readers of a device that it sets up. */
const READ_MS = 5000
/** At a time: each read holds one of the four threads that read files for this process. */
const MAX_READING = 2

/**
 * Device nodes from sysfs, which a container of the agent has without any mount. The name of a node
 * is DEVNAME in the file `uevent` of its device: directories of sysfs have other names, such as
 * dvb0.frontend0 for dvb/adapter0/frontend0. The agent cannot look at the nodes themselves: its
 * container has another /dev.
 */
export class KernelDeviceNodes implements DeviceNodes {
  readonly #root: string
  readonly #clock: Pick<Clock, 'sleep'>
  /** The nodes of the devices that have answered, by key; undefined if a device has none. */
  readonly #nodes = new Map<string, string | undefined>()
  /** The reads that the kernel has not answered, by key. */
  readonly #reading = new Map<string, Promise<string | undefined>>()
  /** The keys of those that took too long: no search waits for them. */
  readonly #blocked = new Set<string>()
  #last: Promise<unknown> = Promise.resolve()

  /** @param sysfsRoot @default '/sys' */
  constructor(sysfsRoot = '/sys', clock: Pick<Clock, 'sleep'> = systemClock) {
    this.#root = sysfsRoot
    this.#clock = clock
  }

  /** One search at a time, so that no file is read twice. */
  find(paths: ReadonlySet<string>): Promise<FoundNodes> {
    const search = this.#last.then(() => this.#find(paths))
    this.#last = search.catch(() => undefined)
    return search
  }

  async #find(paths: ReadonlySet<string>): Promise<FoundNodes> {
    let devices: KernelDevice[]
    try {
      devices = ['char', 'block'].flatMap((type) => this.#devices(type))
    } catch {
      // There is no sysfs.
      return { present: new Set(), complete: false }
    }
    const keys = new Set(devices.map(({ key }) => key))
    for (const key of this.#nodes.keys()) if (!keys.has(key)) this.#nodes.delete(key)
    const nodes = new Set(this.#nodes.values())
    const missing = new Set([...paths].filter((node) => !nodes.has(node)))
    const unread = devices.filter(({ key }) => !this.#nodes.has(key) && !this.#blocked.has(key))
    const likely = likelyDirectories(missing)
    unread.sort((a, b) => Number(likely.has(b.directory)) - Number(likely.has(a.directory)))
    if (missing.size > 0) await this.#read(unread, missing)
    return {
      present: new Set([...paths].filter((node) => !missing.has(node))),
      complete: devices.every(({ key }) => this.#nodes.has(key)),
    }
  }

  #devices(type: string): KernelDevice[] {
    const parent = path.join(this.#root, 'dev', type)
    return readdirSync(parent).flatMap((number) => {
      const target = linkTarget(path.join(parent, number))
      if (target === undefined) return []
      const key = `${type} ${number} ${target}`
      // The kernel blocks readers of a USB device while a hub sets up its devices.
      const node = usbNode(`${type} ${number}`)
      if (node !== undefined) this.#nodes.set(key, node)
      const uevent = path.join(parent, number, 'uevent')
      return { key, directory: path.posix.basename(target), uevent }
    })
  }

  /** Reads until no node is missing or the time is over. */
  async #read(devices: readonly KernelDevice[], missing: Set<string>): Promise<void> {
    const over = new AbortController()
    const queue = devices.values()
    const reader = async () => {
      for (const device of queue) {
        if (over.signal.aborted) return
        const node = await (this.#reading.get(device.key) ?? this.#readNode(device))
        if (node !== undefined) missing.delete(node)
        if (missing.size === 0) over.abort()
      }
    }
    const keys = new Set(devices.map(({ key }) => key))
    const others = [...this.#reading.keys()].filter((key) => !keys.has(key))
    const readers = Array.from({ length: MAX_READING - others.length }, reader)
    const limit = this.#clock.sleep(READ_MS, over.signal).then(
      () => {
        for (const key of this.#reading.keys()) this.#blocked.add(key)
      },
      () => undefined,
    )
    await Promise.race([Promise.all(readers), limit])
    over.abort()
  }

  #readNode({ key, uevent }: KernelDevice): Promise<string | undefined> {
    const read = readFile(uevent, 'utf8')
      .then((text) => {
        // The kernel's DEVNAME comes before what a device reports.
        const name = /(?:^|\n)DEVNAME=([^\n]+)/.exec(text)?.[1]
        const node = name === undefined ? undefined : `/dev/${name}`
        this.#nodes.set(key, node)
        return node
      })
      // The device has gone, or the next search reads again.
      .catch(() => undefined)
      .finally(() => {
        this.#reading.delete(key)
        this.#blocked.delete(key)
      })
    this.#reading.set(key, read)
    return read
  }
}

function usbNode(number: string): string | undefined {
  const [, text] = USB_NUMBER.exec(number) ?? []
  if (text === undefined) return undefined
  const minor = Number(text)
  const [bus, device] = [minor >> 7, minor & 127].map((at) => `${at + 1}`.padStart(3, '0'))
  return `/dev/bus/usb/${bus}/${device}`
}

/**
 * Most directories have the name of the node, or its path with `!` for `/`. If these are read
 * first, most searches read few files.
 */
function likelyDirectories(nodes: ReadonlySet<string>): ReadonlySet<string> {
  const paths = [...nodes].map((node) => node.replace('/dev/', '').replaceAll('/', '!'))
  return new Set([...paths, ...[...nodes].map((node) => path.posix.basename(node))])
}

/** @returns undefined if the device has gone */
function linkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}
