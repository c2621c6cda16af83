import type { DeviceView } from './device-view.js'
import { Glob } from './glob.js'
import type { Match, Rule } from './rule.js'

/** A compiled rule. */
export interface RuleMatcher {
  matches(device: DeviceView): boolean
}

/**
 * Compiles a rule with the meaning of systemd's udev-rules.c: all conditions must hold, and those
 * on plural keys must hold together for the device or for one of its ancestors.
 */
export function ruleMatcher(rule: Rule): RuleMatcher {
  const conditions: Condition[] = []
  const parentConditions: Condition[] = []
  for (const match of [...rule].sort(byCost))
    (isPlural(match) ? parentConditions : conditions).push(condition(match))
  return {
    matches(device) {
      if (!conditions.every((holds) => holds(device))) return false
      if (parentConditions.length === 0) return true
      for (let ancestor: DeviceView | undefined = device; ancestor; ancestor = ancestor.parent) {
        const candidate = ancestor
        if (parentConditions.every((holds) => holds(candidate))) return true
      }
      return false
    },
  }
}

/**
 * Conditions that need no kernel access come first. The order does not change the result. But
 * properties and tags need the uevent file of the device, and a USB hub's file blocks while the
 * kernel sets up the devices behind the hub.
 */
function byCost(a: Match, b: Match): number {
  return COSTS[a.key] - COSTS[b.key]
}

const COSTS: Readonly<Record<Match['key'], number>> = {
  ...{ DEVPATH: 0, KERNEL: 0, KERNELS: 0, SUBSYSTEM: 1, SUBSYSTEMS: 1, DRIVER: 1, DRIVERS: 1 },
  ...{ ATTR: 2, ATTRS: 2, ENV: 3, TAG: 3, TAGS: 3 },
}

type Condition = (device: DeviceView) => boolean

const PLURAL_KEYS: readonly string[] = ['KERNELS', 'SUBSYSTEMS', 'DRIVERS', 'ATTRS', 'TAGS']

/** Whether a condition also applies to the ancestors of a device. */
export function isPlural({ key }: Match): boolean {
  return PLURAL_KEYS.includes(key)
}

/** The glob of a condition. */
export function globOf({ key, value, ignoreCase }: Match): Glob {
  // rule_line_add_token(): these three are equal, because a subsystem used to be a bus or a class.
  const anySubsystem = key === 'SUBSYSTEM' && ['subsystem', 'bus', 'class'].includes(value)
  return new Glob(anySubsystem ? 'subsystem|bus|class' : value, { ignoreCase })
}

function condition(match: Match): Condition {
  const glob = globOf(match)
  const expected = match.operator === '=='
  // token_match_string(): an absent text is empty.
  const text = (value: string | undefined) => glob.matches(value ?? '') === expected
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
      return (device) => [...device.tags].some((tag) => glob.matches(tag)) === expected
    case 'ATTR':
    case 'ATTRS': {
      // Trailing blanks of an attribute count only if the value ends with a blank.
      const trim = /[^ \t\n\r\v\f]$/.test(match.value)
      return (device) => {
        const value = device.attribute(match.attribute)
        // token_match_attr(): an absent attribute matches neither `==` nor `!=`.
        if (value === undefined) return false
        return text(trim ? value.replace(/[ \t\n\r]+$/, '') : value)
      }
    }
  }
}
