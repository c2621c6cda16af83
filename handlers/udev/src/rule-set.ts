import type { Uevent } from './device-monitor.js'
import type { Rule } from './rule.js'
import { globOf, isPlural, type RuleMatcher, ruleMatcher } from './rule-matcher.js'
import type { ScanFilter, SysfsDevice, SysfsScan } from './sysfs.js'

/** The compiled rules of a Configuration. */
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
   * Whether an event can change the result. False only for another subsystem, and for a device that
   * is neither above nor below a matched device.
   */
  mayAffect({ devpath, properties }: Uevent, matched: readonly SysfsDevice[]): boolean {
    const subsystem = properties.get('SUBSYSTEM')
    if (subsystem === undefined) return true
    if (this.#rules.some(({ filter, asksParents }) => asksParents || filter.subsystem(subsystem)))
      return true
    return matched.some(
      (device) => isWithin(device.devpath, devpath) || isWithin(devpath, device.devpath),
    )
  }

  /**
   * The devices to offer, each once, in the order of paths: devices that match any rule, or their
   * nearest ancestors with a device node.
   */
  find(scan: SysfsScan): SysfsDevice[] {
    const found = new Map<string, SysfsDevice>()
    for (const { matcher, filter } of this.#rules) {
      for (const device of scan.devices(filter)) {
        if (!matcher.matches(device) || !device.present) continue
        const offered = nearestWithNode(device) ?? device
        found.set(offered.devpath, offered)
      }
    }
    return [...found.values()].sort((a, b) => (a.devpath < b.devpath ? -1 : 1))
  }
}

function nearestWithNode(device: SysfsDevice): SysfsDevice | undefined {
  for (let ancestor: SysfsDevice | undefined = device; ancestor; ancestor = ancestor.parent)
    if (ancestor.devnode !== undefined) return ancestor
  return undefined
}

/** The part of a rule that only needs the names of directories and links. */
function scanFilter(rule: Rule): ScanFilter {
  const tests = (key: 'SUBSYSTEM' | 'KERNEL') =>
    rule
      .filter((match) => match.key === key)
      .map((match) => ({ glob: globOf(match), expected: match.operator === '==' }))
  const [subsystems, kernels] = [tests('SUBSYSTEM'), tests('KERNEL')]
  return {
    subsystem: (name) => subsystems.every(({ glob, expected }) => glob.matches(name) === expected),
    kernel: (name) => kernels.every(({ glob, expected }) => glob.matches(name) === expected),
  }
}

/**
 * Whether a path is equal to another or below it, by whole components: `1-1` is not above `1-10`.
 */
export function isWithin(devpath: string, above: string): boolean {
  return devpath === above || devpath.startsWith(`${above}/`)
}
