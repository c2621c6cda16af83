import { type Clock, type Device, defineDiscoveryHandler, inTurns, systemClock } from '@akrijs/sdk'
import { escapeBytes } from './byte-text.js'
import { udevDetails } from './details.js'
import { describeGroup, optionsFrom } from './device-description.js'
import { groupRecursively, groupSingly } from './device-group.js'
import { DeviceInventory } from './device-inventory.js'
import type { DeviceMonitor } from './device-monitor.js'
import { SYSTEM_ROOTS, type SysfsRoots } from './device-tree.js'
import { Offers } from './offers.js'
import { joinIommuGroups } from './pci-passthrough.js'
import { RuleSet } from './rule-set.js'
import { ruleWarnings } from './rule-warnings.js'
import type { SysfsDevice } from './sysfs-device.js'
import { UeventMonitor } from './uevent-monitor.js'

/** Other roots, another monitor or other clocks, for tests. */
export interface UdevHandlerOptions extends Partial<SysfsRoots> {
  /** @default the events of the kernel and of udevd */
  readonly monitor?: DeviceMonitor
  /** @default systemClock */
  readonly clock?: Clock
  /** @default the processor time of this process, in milliseconds */
  readonly processorMs?: () => number
  /** @default CLOCK_MONOTONIC, in milliseconds */
  readonly uptimeMs?: () => number
}

/** The interval of checks whether a device is ready, in milliseconds. */
const READY_CHECK_MS = 250

/**
 * Finds the devices of this machine by udev rules, and updates the list after each plug and unplug.
 */
export function createUdevHandler({
  sysfsRoot = SYSTEM_ROOTS.sysfsRoot,
  runUdevRoot = SYSTEM_ROOTS.runUdevRoot,
  clock = systemClock,
  monitor = new UeventMonitor({ clock, runUdevRoot }),
  processorMs = usedProcessorMs,
  uptimeMs = machineMs,
}: UdevHandlerOptions = {}) {
  const roots = { sysfsRoot, runUdevRoot }
  const inventory = new DeviceInventory({ roots, monitor, clock, processorMs, uptimeMs })
  return defineDiscoveryHandler({
    name: 'udev',
    shared: false,
    details: udevDetails,
    warnings: ({ udevRules }) => ruleWarnings(udevRules),
    async *discover({ details, properties, signal, log, leaveOut, remark }) {
      const grouped = details.groupRecursive
      const options = { ...optionsFrom(properties), grouped, permissions: details.permissions }
      const group = (found: readonly SysfsDevice[]) => {
        const groups = grouped ? groupRecursively(found) : groupSingly(found)
        return options.vfioPassthrough ? joinIommuGroups(groups) : groups
      }
      if (details.udevRules.length === 0) log.warn({}, 'discovery started without udev rules')
      const follower = inventory.follow(signal, log)
      const rules = new RuleSet(details.udevRules)
      const offers = new Offers(follower.reader, { grouped })
      let problem: string | undefined
      for (let isFirst = true; ; isFirst = false) {
        const changed = await follower.next(offers.isWaiting ? READY_CHECK_MS : undefined)
        if (changed === undefined) return
        const differs = await rules.update(follower.reader.tree, changed)
        const isOther = differs || isFirst
        const isMore = await offers.select(isOther ? group(rules.found) : undefined)
        if (!isOther && !isMore && problem === follower.reader.problem) continue
        problem = follower.reader.problem
        for (const { id } of offers.unready) leaveOut(escapeBytes(id), 'udev is not done with it')
        for (const { devpath, reason, detail } of rules.nearMisses(follower.reader.tree))
          leaveOut(escapeBytes(devpath), escapeBytes(reason), escapeBytes(detail))
        for (const text of rules.remarks(follower.reader.tree)) remark(escapeBytes(text))
        if (problem !== undefined) remark(problem)
        const devices: Device[] = []
        for await (const members of inTurns(offers.ready)) {
          devices.push(describeGroup(members, options))
        }
        yield devices
      }
    },
  })
}

function usedProcessorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function machineMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}
