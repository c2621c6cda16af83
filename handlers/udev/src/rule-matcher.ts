import type { DeviceView } from './device-view.js'
import { Glob } from './glob.js'
import type { Match, Rule } from './rule.js'

/** A rule that is ready to be asked about many devices. */
export interface RuleMatcher {
  readonly rule: Rule
  matches(device: DeviceView): boolean
}

/**
 * Prepares a rule. The meaning is that of systemd's udev-rules.c: all conditions must hold; those on plural keys must hold
 * all together on the device or on one of its ancestors.
 */
export function ruleMatcher(rule: Rule): RuleMatcher {
  const own: Condition[] = []
  const ofParents: Condition[] = []
  for (const match of [...rule].sort(byCost))
    (isPlural(match) ? ofParents : own).push(condition(match))
  return {
    rule,
    matches(device) {
      if (!own.every((holds) => holds(device))) return false
      if (ofParents.length === 0) return true
      for (let one: DeviceView | undefined = device; one !== undefined; one = one.parent) {
        const candidate = one
        if (ofParents.every((holds) => holds(candidate))) return true
      }
      return false
    },
  }
}

/**
 * What decides without asking the kernel comes first. All conditions must hold, so their order says nothing, but properties
 * and tags need the device's uevent file, and a USB hub's cannot be read while the kernel sets up what is plugged into it.
 */
function byCost(one: Match, other: Match): number {
  return COSTS[one.key] - COSTS[other.key]
}

const COSTS: Readonly<Record<Match['key'], number>> = {
  ...{ DEVPATH: 0, KERNEL: 0, KERNELS: 0, SUBSYSTEM: 1, SUBSYSTEMS: 1, DRIVER: 1, DRIVERS: 1 },
  ...{ ATTR: 2, ATTRS: 2, ENV: 3, TAG: 3, TAGS: 3 },
}

type Condition = (device: DeviceView) => boolean

/** Whether a condition also looks at the ancestors of a device. */
export function isPlural({ key }: Match): boolean {
  return (
    key === 'KERNELS' ||
    key === 'SUBSYSTEMS' ||
    key === 'DRIVERS' ||
    key === 'ATTRS' ||
    key === 'TAGS'
  )
}

/** What the value of a condition is compared by. */
export function globOf({ key, value, ignoreCase }: Match): Glob {
  // rule_line_add_token(): these three mean the same, from times when a subsystem was either a bus or a class.
  const anySubsystem = key === 'SUBSYSTEM' && ['subsystem', 'bus', 'class'].includes(value)
  return new Glob(anySubsystem ? 'subsystem|bus|class' : value, { ignoreCase })
}

function condition(match: Match): Condition {
  const glob = globOf(match)
  const wanted = match.operator === '=='
  // token_match_string(): a text that is not there is the empty one.
  const text = (value: string | undefined) => glob.matches(value ?? '') === wanted
  switch (match.key) {
    case 'DEVPATH':
      return (device) => text(device.devpath)
    case 'KERNEL':
    case 'KERNELS':
      return (device) => text(device.kernel)
    case 'SUBSYSTEM':
    case 'SUBSYSTEMS':
      return (device) => text(device.subsystem)
    case 'DRIVER':
    case 'DRIVERS':
      return (device) => text(device.driver)
    case 'ENV':
      return (device) => text(device.properties.get(match.attribute))
    case 'TAG':
    case 'TAGS':
      return (device) => [...device.tags].some((tag) => glob.matches(tag)) === wanted
    case 'ATTR':
    case 'ATTRS': {
      // Unless it is asked for, blanks at the end of an attribute do not count.
      const trim = /[^ \t\n\r\v\f]$/.test(match.value)
      return (device) => {
        const value = device.attribute(match.attribute)
        // token_match_attr(): an attribute that is not there matches nothing, neither by == nor by !=.
        if (value === undefined) return false
        return text(trim ? value.replace(/[ \t\n\r]+$/, '') : value)
      }
    }
  }
}
