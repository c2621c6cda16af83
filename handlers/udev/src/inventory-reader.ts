import type { Clock, Logger } from '@akrijs/sdk'
import type { DeviceGroup } from './device-group.js'
import type { Change, DeviceMonitor, Uevent } from './device-monitor.js'
import { DeviceTree, type SysfsRoots, type TouchedDevice } from './device-tree.js'
import { ALL_DEVICES, SecondLooks } from './second-looks.js'
import { Settling } from './settling.js'
import type { SysfsDevice } from './sysfs-device.js'

/** The interval of looks at everything: some changes cause no event. In milliseconds. */
const EVERYTHING_MS = 60_000
/**
 * The first pause before a second look, in milliseconds. With events of udevd, few looks follow.
 */
const PAUSE_MS = { withUdevd: 2000, alone: 100 }
/** A long look is followed by a pause: a burst of long looks leaves a processor to others. */
const REST = { factor: 4, shortMs: 100, maxMs: 2000 }

export interface InventoryOptions {
  readonly roots: SysfsRoots
  readonly monitor: DeviceMonitor
  readonly clock: Clock
  /** The processor time of this process, in milliseconds. */
  readonly processorMs: () => number
  /** The time since the start of the machine (CLOCK_MONOTONIC), in milliseconds. */
  readonly uptimeMs: () => number
}

/** Keeps a tree of the devices up to date, until it is stopped. */
export class InventoryReader {
  readonly tree: DeviceTree
  readonly settling: Settling
  readonly #options: InventoryOptions
  readonly #onLook: (number: number, changed: ReadonlySet<string>) => void
  readonly #stop = new AbortController()
  readonly #secondLooks = new SecondLooks()
  #touched = new Map<string, TouchedDevice>()
  #isAllRequested = false
  /** The number of looks at everything that have started. */
  #looks = 0
  /** False until the sockets are open. */
  #isListening = false
  #wake = new AbortController()

  /** @param onLook receives the number of the last look at everything, and the changed paths */
  constructor(
    options: InventoryOptions,
    log: Logger,
    onLook: (number: number, changed: ReadonlySet<string>) => void,
  ) {
    this.#options = options
    this.#onLook = onLook
    this.tree = new DeviceTree(options.roots)
    this.settling = new Settling(options)
    for (const work of [this.#listen(log), this.#read()])
      work.catch((error: unknown) => log.error({ err: error }, 'device inventory failed'))
  }

  /** Why changes are found late; undefined while events arrive. */
  get problem(): string | undefined {
    return this.#options.monitor.problem
  }

  stop(): void {
    this.#stop.abort()
    this.#wake.abort()
  }

  /** Requests a look at everything. @returns its number */
  requestAll(): number {
    this.#isAllRequested = true
    this.#wake.abort()
    return this.#looks + 1
  }

  /** Looks again at a device that udevd should process. */
  expect({ devpath, subsystem }: SysfsDevice): void {
    if (subsystem === undefined || this.#secondLooks.has(devpath)) return
    const now = this.#options.clock.monotonicMs()
    this.#secondLooks.expect(devpath, subsystem, { now, pauseMs: PAUSE_MS.alone })
    this.#wake.abort()
  }

  /** Whether udevd has finished with a device, as far as one can know. */
  isSettled(device: SysfsDevice): boolean {
    return this.settling.isSettled(device, () => this.#secondLooks.isAnswered(device.devpath))
  }

  /** Whether all parts of a physical device have appeared, as far as one can know. */
  isComplete(group: DeviceGroup): boolean {
    return this.settling.isComplete(group, () => this.#isAwaited(group.id))
  }

  /** Whether a look at a device, or at devices below it, follows what udevd does. */
  #isAwaited(devpath: string): boolean {
    if (this.settling.udevdIsBusy) return this.#secondLooks.hasWithin(devpath)
    const isHurried = this.#secondLooks.hurry(devpath, this.#options.clock.monotonicMs())
    if (isHurried) this.#wake.abort()
    return isHurried
  }

  async #listen(log: Logger): Promise<void> {
    for await (const change of this.#options.monitor.changes(this.#stop.signal, log)) {
      if (change.kind === 'rescan') log.debug({ reason: change.reason }, 'all devices requested')
      this.#add(change)
      this.#isListening = true
      this.#wake.abort()
    }
  }

  #add(change: Change): void {
    if (change.kind === 'rescan') this.#addUnknownEvents()
    else for (const event of change.events) this.#addEvent(event)
  }

  /** Events were lost, or came before the start: udevd may process any device. */
  #addUnknownEvents(): void {
    this.#isAllRequested = true
    this.settling.addUnknownEvents()
    if (!this.settling.udevdRuns) return
    const now = this.#options.clock.monotonicMs()
    this.#secondLooks.expect(ALL_DEVICES, '', { now, pauseMs: this.#pauseMs })
  }

  #addEvent({ source, action, devpath, properties }: Uevent): void {
    // Drivers and modules have events too.
    if (!devpath.startsWith('/devices/')) return
    const subsystem = properties.get('SUBSYSTEM')
    const number = Number(properties.get('SEQNUM') ?? 0)
    const fromKernel = source === 'kernel'
    if (!fromKernel) this.#secondLooks.answered(devpath, number)
    else if (action === 'add' || action === 'move') this.#secondLooks.appeared(devpath, number)
    // The devices below a device that moves have no events.
    if (subsystem === undefined || action === 'move') {
      this.#isAllRequested = true
      return
    }
    this.settling.addEvent(devpath)
    if (fromKernel && action !== 'remove' && this.settling.udevdRuns) {
      const now = this.#options.clock.monotonicMs()
      this.#secondLooks.expect(devpath, subsystem, { number, now, pauseMs: this.#pauseMs })
    } else {
      const removed = fromKernel && action === 'remove'
      if (removed) this.#secondLooks.disappeared(devpath)
      this.#touch(devpath, { subsystem, removed })
    }
  }

  get #pauseMs(): number {
    return this.tree.sharesNetwork ? PAUSE_MS.withUdevd : PAUSE_MS.alone
  }

  #touch(devpath: string, { subsystem, removed }: TouchedDevice): void {
    const before = this.#touched.get(devpath)?.removed ?? false
    this.#touched.set(devpath, { subsystem, removed: removed || before })
  }

  async #read(): Promise<void> {
    const { clock, processorMs } = this.#options
    let allAt = clock.monotonicMs() + EVERYTHING_MS
    while (!this.#stop.signal.aborted) {
      this.#wake = new AbortController()
      const now = clock.monotonicMs()
      // The state before a look, which sees what udevd has done until then.
      const { udevdIsBusy } = this.settling
      for (const [devpath, subsystem] of this.#secondLooks.take(now, udevdIsBusy)) {
        if (devpath !== ALL_DEVICES) this.#touch(devpath, { subsystem, removed: false })
        else {
          this.#isAllRequested = true
          if (!udevdIsBusy) this.#secondLooks.done(ALL_DEVICES)
        }
      }
      if (now >= allAt) this.#isAllRequested = true
      if (!this.#isListening || (!this.#isAllRequested && this.#touched.size === 0)) {
        const next = Math.min(allAt, this.#secondLooks.nextAt ?? allAt)
        await this.#sleep(Math.max(1, next - now), this.#wake.signal)
        continue
      }
      if (this.#isAllRequested) allAt = now + EVERYTHING_MS
      // Not the time: a look can wait for the kernel.
      const before = processorMs()
      await this.#look(udevdIsBusy)
      const rest = REST.factor * (processorMs() - before - REST.shortMs)
      if (rest > 0) await this.#sleep(Math.min(rest, REST.maxMs), this.#stop.signal)
    }
  }

  async #look(udevdIsBusy: boolean): Promise<void> {
    const [touched, isAll] = [this.#touched, this.#isAllRequested]
    this.#touched = new Map()
    this.#isAllRequested = false
    if (isAll) {
      this.#looks++
      this.#options.monitor.checkProblem?.()
    }
    const number = this.#looks
    const changed = new Set(await this.tree.lookAt(touched))
    if (isAll) for (const devpath of await this.tree.lookAtAll()) changed.add(devpath)
    const isFirst = isAll && number === 1
    for (const devpath of changed) {
      const device = this.tree.listed.has(devpath) ? this.tree.device(devpath) : undefined
      if (device !== undefined) this.settling.addDevice(device, !isFirst)
    }
    if (!udevdIsBusy)
      for (const devpath of touched.keys())
        if (this.tree.device(devpath)?.hasRecord) this.#secondLooks.done(devpath)
    if (!this.#stop.signal.aborted) this.#onLook(number, changed)
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(ms, signal).catch(() => undefined)
  }
}
