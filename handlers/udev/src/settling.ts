import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Clock } from '@akrijs/sdk'
import type { DeviceGroup } from './device-group.js'
import type { SysfsRoots } from './device-tree.js'
import { isWithin } from './devpath.js'
import { UDEVD_MS } from './second-looks.js'
import type { SysfsDevice } from './sysfs-device.js'
import { readStat } from './sysfs-files.js'

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

interface SettlingOptions {
  readonly roots: Pick<SysfsRoots, 'runUdevRoot'>
  readonly clock: Clock
  /** The time since the start of the machine (CLOCK_MONOTONIC), in milliseconds. */
  readonly uptimeMs: () => number
}

/** Knows when a device is ready for use: udevd sets the permissions of nodes, and properties. */
export class Settling {
  readonly #clock: Clock
  readonly #runUdevRoot: string
  readonly #uptimeMs: () => number
  readonly #found = new WeakMap<SysfsDevice, Found>()
  readonly #settled = new WeakSet<SysfsDevice>()
  /** The times of the last events; in the order of these times. */
  readonly #events = new Map<string, number>()
  /** The time of the last events whose devices are unknown. */
  #unknownAt = 0
  /** Whether a record of this udevd had the mark of {@link SysfsDevice.isProcessing}. */
  #marksRecords = false

  constructor({ clock, roots, uptimeMs }: SettlingOptions) {
    this.#clock = clock
    this.#runUdevRoot = roots.runUdevRoot
    this.#uptimeMs = uptimeMs
  }

  /** The socket of udevd exists while udevd runs. */
  get udevdRuns(): boolean {
    return existsSync(path.join(this.#runUdevRoot, 'control'))
  }

  get udevdIsBusy(): boolean {
    return this.#busySinceMs !== undefined
  }

  /**
   * udevd keeps this file while it has events to process. It writes the file when an event comes
   * and there is no other event.
   */
  get #busySinceMs(): number | undefined {
    return readStat(path.join(this.#runUdevRoot, 'queue'))?.mtimeMs
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

  /** Events were lost, or came before the start. */
  addUnknownEvents(): void {
    this.#unknownAt = this.#clock.monotonicMs()
  }

  /**
   * Whether udevd processed the device once, with its programs (`RUN`). If udevd does not run, or
   * has nothing to do, the device counts as processed.
   * @param isAnswered whether udevd sent its event for the device
   */
  isSettled(device: SysfsDevice, isAnswered: () => boolean): boolean {
    if (this.#settled.has(device)) return true
    if (device.needsUdevd && this.udevdRuns && this.#isUnfinished(device, isAnswered)) {
      const limit = this.udevdIsBusy ? UDEVD_MS : this.#foundOf(device).isNew ? IDLE_MS : 0
      if (this.#ageOf(device) < limit) return false
    }
    this.#settled.add(device)
    return true
  }

  #isUnfinished(device: SysfsDevice, isAnswered: () => boolean): boolean {
    if (!device.hasRecord) return true
    if (device.isProcessing) {
      this.#marksRecords = true
      return true
    }
    // A device that was there before stays offered when the handler starts again.
    if (this.#marksRecords || !this.#foundOf(device).isNew || isAnswered()) return false
    // Programs may still run. They have ended if udevd was idle after it wrote the record: the
    // events of other devices must not delay this device.
    const [writtenMs, busySinceMs] = [device.recordWrittenMs, this.#busySinceMs]
    return writtenMs !== undefined && busySinceMs !== undefined && writtenMs >= busySinceMs
  }

  /**
   * Whether all parts of a physical device have appeared, as far as one can know.
   * @param isAwaited whether udevd should process a part of the device, as far as one can know
   */
  isComplete(group: DeviceGroup, isAwaited: () => boolean): boolean {
    const now = this.#clock.monotonicMs()
    const [top] = group.members
    if (top === undefined) return true
    const { at, isNew } = this.#foundOf(top)
    const age = isNew ? now - at : Math.max(now - at, this.#sinceFirstProcessed(group.members))
    if (age >= UDEVD_MS) return true
    if (isAwaited()) return false
    if (age >= COMPLETE_MS) return true
    if (now - this.#unknownAt < QUIET_MS) return false
    for (const [devpath, eventAt] of this.#events)
      if (now - eventAt < QUIET_MS && isWithin(devpath, group.id)) return false
    return true
  }

  /**
   * The time since udevd first processed the latest part of a device that appeared before the first
   * look, in milliseconds; Infinity if that is unknown.
   */
  #sinceFirstProcessed(members: readonly SysfsDevice[]): number {
    let age = Infinity
    for (const member of members) {
      const { initializedMs } = member
      if (initializedMs === undefined || this.#foundOf(member).isNew) continue
      age = Math.min(age, this.#uptimeMs() - initializedMs)
    }
    return age
  }

  /**
   * The time since the device appeared. Of a device that appeared before the first look: since
   * udevd first processed it, if that is known. In milliseconds.
   */
  #ageOf(device: SysfsDevice): number {
    const { at, isNew } = this.#foundOf(device)
    const age = this.#clock.monotonicMs() - at
    const { initializedMs } = device
    return isNew || initializedMs === undefined
      ? age
      : Math.max(age, this.#uptimeMs() - initializedMs)
  }

  #foundOf(device: SysfsDevice): Found {
    const found = this.#found.get(device) ?? { at: this.#clock.monotonicMs(), isNew: true }
    this.#found.set(device, found)
    return found
  }
}
