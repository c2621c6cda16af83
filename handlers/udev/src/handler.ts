import { type DiscoveryHandler, defineDiscoveryHandler, type Logger } from '@akrijs/sdk'
import { type UdevDetails, udevDetails } from './details.js'
import { describeGroup, optionsFrom } from './device-description.js'
import { groupRecursively, oneByOne } from './device-group.js'
import { RuleSet } from './device-match.js'
import type { DeviceMonitor } from './device-monitor.js'
import { SYSTEM_ROOTS, type SysfsRoots, SysfsScan } from './sysfs.js'
import { openMonitor } from './uevent-monitor.js'

export interface UdevHandlerOptions {
  /** Where to look instead of `/sys` and `/run/udev`. */
  readonly roots?: SysfsRoots
  /** @default one that listens to the kernel's or udev's events, else polls */
  readonly monitor?: (log: Logger) => DeviceMonitor
}

/** Finds the devices of this machine by udev rules, and finds them again as soon as something is plugged or unplugged. */
export function createUdevHandler({ roots = SYSTEM_ROOTS, monitor }: UdevHandlerOptions = {}): DiscoveryHandler<UdevDetails> {
  return defineDiscoveryHandler({
    name: 'udev',
    shared: false,
    details: udevDetails,
    async *discover({ details, properties, signal, log }) {
      const rules = new RuleSet(details.udevRules)
      const options = { ...optionsFrom(properties), grouped: details.groupRecursive, permissions: details.permissions }
      const group = details.groupRecursive ? groupRecursively : oneByOne
      const watch = monitor?.(log) ?? openMonitor({ log, roots })
      for await (const change of watch.changes(signal)) {
        if (change.kind === 'rescan') log.debug({ reason: change.reason }, 'looking at all devices')
        // Looking anew costs a few milliseconds, and is right whatever events said or missed.
        yield group(rules.find(new SysfsScan(roots))).map((members) => describeGroup(members, options))
      }
    },
  })
}
