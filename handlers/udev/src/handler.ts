import { type DiscoveryHandler, defineDiscoveryHandler } from '@akrijs/sdk'
import { type UdevDetails, udevDetails } from './details.js'
import { describeGroup, optionsFrom } from './device-description.js'
import { groupRecursively, groupSingly } from './device-group.js'
import type { DeviceMonitor } from './device-monitor.js'
import { RuleSet } from './rule-set.js'
import { SYSTEM_ROOTS, type SysfsDevice, type SysfsRoots, SysfsScan } from './sysfs.js'
import { UeventMonitor } from './uevent-monitor.js'

/** Other roots or another monitor, for tests. */
export interface UdevHandlerOptions extends Partial<SysfsRoots> {
  /** @default the events of the kernel and of udevd */
  readonly monitor?: DeviceMonitor
}

/**
 * Finds the devices of this machine by udev rules, and updates the list after each plug and unplug.
 */
export function createUdevHandler({
  sysfsRoot = SYSTEM_ROOTS.sysfsRoot,
  runUdevRoot = SYSTEM_ROOTS.runUdevRoot,
  monitor = new UeventMonitor({ runUdevRoot }),
}: UdevHandlerOptions = {}): DiscoveryHandler<UdevDetails> {
  return defineDiscoveryHandler({
    name: 'udev',
    shared: false,
    details: udevDetails,
    async *discover({ details, properties, signal, log }) {
      const rules = new RuleSet(details.udevRules)
      const options = {
        ...optionsFrom(properties),
        grouped: details.groupRecursive,
        permissions: details.permissions,
      }
      const group = details.groupRecursive ? groupRecursively : groupSingly
      if (details.udevRules.length === 0) log.warn({}, 'discovery started without udev rules')
      let matched: readonly SysfsDevice[] = []
      for await (const change of monitor.changes(signal, log)) {
        if (change.kind === 'rescan') log.debug({ reason: change.reason }, 'devices scanned')
        else if (!change.events.some((event) => rules.mayAffect(event, matched))) continue
        // A full scan takes a few milliseconds and does not depend on the events being complete.
        matched = rules.find(new SysfsScan({ sysfsRoot, runUdevRoot }))
        yield group(matched).map((members) => describeGroup(members, options))
      }
    },
  })
}
