import type { DeviceView } from './device-view.js'
import { Glob } from './glob.js'
import type { Match, Rule } from './rule.js'

/** A compiled rule. */
export interface RuleMatcher {
  /** The conditions in the order in which they are evaluated. */
  readonly conditions: Rule
  /**
   * How many conditions hold before the first that does not; Infinity if the rule matches. Of the
   * conditions on plural keys, those that hold together for the device or for one ancestor count.
   */
  depth(device: DeviceView): number
}

/**
 * Compiles a rule with the meaning of systemd's udev-rules.c: all conditions must hold, and those
 * on plural keys must hold together for the device or for one of its ancestors.
 */
export function ruleMatcher(rule: Rule): RuleMatcher {
  const sorted = [...rule].sort(byCost)
  const [singular, plural] = [sorted.filter((match) => !isPlural(match)), sorted.filter(isPlural)]
  const [conditions, parentConditions] = [singular.map(condition), plural.map(condition)]
  return {
    conditions: [...singular, ...plural],
    depth(device) {
      const held = heldOf(conditions, device)
      if (held < conditions.length) return held
      let most = 0
      for (let ancestor: DeviceView | undefined = device; ancestor; ancestor = ancestor.parent) {
        most = Math.max(most, heldOf(parentConditions, ancestor))
        if (most === parentConditions.length) return Infinity
      }
      return held + most
    },
  }
}

/** How many of the conditions hold before the first that does not. */
function heldOf(conditions: readonly Condition[], device: DeviceView): number {
  let held = 0
  for (const holds of conditions) {
    if (!holds(device)) break
    held++
  }
  return held
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
        return text(trim ? value.replace(/(?<![ \t\n\r])[ \t\n\r]+$/, '') : value)
      }
    }
  }
}
