import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Clock } from '@akrijs/sdk'
import { isWithin } from './devpath.js'
import { UDEVD_MS } from './second-looks.js'
import type { SysfsDevice } from './sysfs-device.js'

/** The time for udevd to start with a new device, in milliseconds. */
const IDLE_MS = 2000
/** A physical device is complete after this time without an event, in milliseconds. */
const QUIET_MS = 1000
/** The longest time for a physical device to be complete, in milliseconds. */
const COMPLETE_MS = 10_000

interface Found {
  readonly at: number
  /** Whether the device appeared after the first look. */
  readonly isNew: boolean
}

/** Knows when a device is ready for use: udevd sets the permissions of nodes, and properties. */
export class Settling {
  readonly #clock: Clock
  readonly #runUdevRoot: string
  readonly #found = new WeakMap<SysfsDevice, Found>()
  readonly #settled = new WeakSet<SysfsDevice>()
  /** The times of the last events; in the order of these times. */
  readonly #events = new Map<string, number>()

  constructor(clock: Clock, runUdevRoot: string) {
    this.#clock = clock
    this.#runUdevRoot = runUdevRoot
  }

  /** The socket of udevd exists while udevd runs. */
  get udevdRuns(): boolean {
    return existsSync(path.join(this.#runUdevRoot, 'control'))
  }

  /** udevd keeps this file while it has events to process. */
  get udevdIsBusy(): boolean {
    return existsSync(path.join(this.#runUdevRoot, 'queue'))
  }

  addDevice(device: SysfsDevice, isNew: boolean): void {
    if (!this.#found.has(device)) this.#found.set(device, { at: this.#clock.monotonicMs(), isNew })
  }

  addEvent(devpath: string): void {
    const now = this.#clock.monotonicMs()
    this.#events.delete(devpath)
    this.#events.set(devpath, now)
    for (const [oldest, at] of this.#events) {
      if (now - at < QUIET_MS) break
      this.#events.delete(oldest)
    }
  }

  /**
   * Whether udevd processed the device once. If udevd does not run, or has nothing to do, the
   * device counts as processed.
   */
  isSettled(device: SysfsDevice): boolean {
    if (this.#settled.has(device)) return true
    if (!device.initialized && this.udevdRuns) {
      const { at, isNew } = this.#foundOf(device)
      const limit = this.udevdIsBusy ? UDEVD_MS : isNew ? IDLE_MS : 0
      if (this.#clock.monotonicMs() - at < limit) return false
    }
    this.#settled.add(device)
    return true
  }

  /**
   * Whether all parts of a physical device have appeared, as far as one can know.
   * @param isAwaited whether udevd should process the device, or a part of it
   */
  isComplete(device: SysfsDevice, isAwaited: () => boolean): boolean {
    const now = this.#clock.monotonicMs()
    const { at, isNew } = this.#foundOf(device)
    if (!isNew || now - at >= UDEVD_MS) return true
    if (this.udevdIsBusy && isAwaited()) return false
    if (now - at >= COMPLETE_MS) return true
    for (const [devpath, eventAt] of this.#events)
      if (now - eventAt < QUIET_MS && isWithin(devpath, device.devpath)) return false
    return true
  }

  #foundOf(device: SysfsDevice): Found {
    return this.#found.get(device) ?? { at: this.#clock.monotonicMs(), isNew: true }
  }
}
