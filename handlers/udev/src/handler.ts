import { type DiscoveryHandler, defineDiscoveryHandler } from '@akrijs/sdk'
import { type UdevDetails, udevDetails } from './details.js'
import { describeGroup, optionsFrom } from './device-description.js'
import { groupRecursively, oneByOne } from './device-group.js'
import type { DeviceMonitor } from './device-monitor.js'
import { type MatchedDevice, RuleSet } from './rule-set.js'
import { SYSTEM_ROOTS, type SysfsRoots, SysfsScan } from './sysfs.js'

export interface UdevHandlerOptions extends Partial<SysfsRoots> {
  readonly monitor: DeviceMonitor
}

/** Finds the devices of this machine by udev rules, and finds them again as soon as something is plugged or unplugged. */
export function defineUdevHandler({
  monitor,
  ...given
}: UdevHandlerOptions): DiscoveryHandler<UdevDetails> {
  const roots: SysfsRoots = { ...SYSTEM_ROOTS, ...given }
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
      const group = details.groupRecursive ? groupRecursively : oneByOne
      if (details.udevRules.length === 0)
        log.warn({}, 'udevRules is empty, so nothing will be found')
      let found: readonly MatchedDevice[] = []
      for await (const change of monitor.changes(signal, log)) {
        if (change.kind === 'rescan') log.debug({ reason: change.reason }, 'looking at all devices')
        else if (!change.events.some((event) => rules.concernedBy(event, found))) continue
        // Looking anew costs a few milliseconds, and is right whatever events said or missed.
        found = rules.find(new SysfsScan(roots))
        yield group(found).map((members) => describeGroup(members, options))
      }
    },
  })
}
