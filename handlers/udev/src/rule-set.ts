import type { Uevent } from './device-monitor.js'
import type { Rule } from './rule.js'
import { globOf, isPlural, type RuleMatcher, ruleMatcher } from './rule-matcher.js'
import type { ScanFilter, SysfsDevice, SysfsScan } from './sysfs.js'

/** A device that is to be offered: the one that matched, or, where that has no node, its nearest ancestor that has. */
export interface MatchedDevice {
  readonly devpath: string
  readonly devnode: string | undefined
  readonly device: SysfsDevice
}

/** Rules that are ready to be asked about the devices of the machine, again and again. */
export class RuleSet {
  readonly #rules: readonly {
    readonly matcher: RuleMatcher
    readonly filter: ScanFilter
    readonly asksParents: boolean
  }[]

  constructor(rules: readonly Rule[]) {
    this.#rules = rules.map((rule) => ({
      matcher: ruleMatcher(rule),
      filter: scanFilter(rule),
      asksParents: rule.some(isPlural),
    }))
  }

  /**
   * Whether an event can change what is found. False only where that is certain: another subsystem, and neither above nor
   * below what was found last.
   */
  concernedBy({ devpath, properties }: Uevent, found: readonly MatchedDevice[]): boolean {
    const subsystem = properties.get('SUBSYSTEM')
    if (subsystem === undefined) return true
    if (this.#rules.some(({ filter, asksParents }) => asksParents || filter.subsystem(subsystem)))
      return true
    return found.some(
      (device) => isWithin(device.devpath, devpath) || isWithin(devpath, device.devpath),
    )
  }

  /** All devices that match one of the rules, each once, in order of their paths. */
  find(scan: SysfsScan): MatchedDevice[] {
    const found = new Map<string, MatchedDevice>()
    for (const { matcher, filter } of this.#rules) {
      for (const device of scan.devices(filter)) {
        if (!matcher.matches(device) || !device.present) continue
        const offered = nearestWithNode(device) ?? device
        found.set(offered.devpath, {
          devpath: offered.devpath,
          devnode: offered.devnode,
          device: offered,
        })
      }
    }
    return [...found.values()].sort((a, b) => (a.devpath < b.devpath ? -1 : 1))
  }
}

function nearestWithNode(device: SysfsDevice): SysfsDevice | undefined {
  for (let one: SysfsDevice | undefined = device; one !== undefined; one = one.parent) {
    if (one.devnode !== undefined) return one
  }
  return undefined
}

/** What the names of directories and links alone can say about a rule. */
function scanFilter(rule: Rule): ScanFilter {
  const tests = (key: 'SUBSYSTEM' | 'KERNEL') =>
    rule
      .filter((match) => match.key === key)
      .map((match) => ({ glob: globOf(match), wanted: match.operator === '==' }))
  const [subsystems, kernels] = [tests('SUBSYSTEM'), tests('KERNEL')]
  return {
    subsystem: (name) => subsystems.every(({ glob, wanted }) => glob.matches(name) === wanted),
    kernel: (name) => kernels.every(({ glob, wanted }) => glob.matches(name) === wanted),
  }
}

/** Whether one path is the other or lies below it, by whole components: `1-1` is not above `1-10`. */
export function isWithin(devpath: string, above: string): boolean {
  return devpath === above || devpath.startsWith(`${above}/`)
}
