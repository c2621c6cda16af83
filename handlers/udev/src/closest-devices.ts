import { conditionText, keyText } from './condition-text.js'
import type { DeviceView } from './device-view.js'
import type { Match, Rule } from './rule.js'
import { isPlural, type RuleMatcher, ruleMatcher } from './rule-matcher.js'

/** How far a device fulfils a rule: more conditions come first, then fewer that are missing. */
interface Nearness {
  /** The index of the rule. */
  readonly rule: number
  /** How many conditions hold before the first that does not. */
  readonly depth: number
  readonly missing: number
}

interface NearDevice {
  readonly devpath: string
  readonly nearness: Nearness
}

/** The most devices that are remembered. */
const MAX_DEVICES = 5
/** The most values of a message. A path rarely has more devices. */
const MAX_VALUES = 10

/**
 * The devices that came closest to the rules of a Configuration, for people. It costs little: the
 * matching has evaluated the conditions.
 */
export class ClosestDevices {
  readonly #rules: readonly RuleMatcher[]
  #devices: NearDevice[] = []

  constructor(rules: readonly RuleMatcher[]) {
    this.#rules = rules
  }

  /** In the order of their nearness. */
  get devpaths(): readonly string[] {
    return this.#devices.map(({ devpath }) => devpath)
  }

  /**
   * Matches a device.
   * @returns whether any rule matches
   */
  matches(devpath: string, device: DeviceView | undefined): boolean {
    let best: Nearness | undefined
    let isMatch = false
    for (const [rule, { conditions, depth: depthOf }] of this.#rules.entries()) {
      const depth = device === undefined ? 0 : depthOf(device)
      isMatch = depth === Infinity
      if (isMatch) break
      const nearness = { rule, depth, missing: conditions.length - depth }
      if (depth > 0 && (best === undefined || byNearness(nearness, best) < 0)) best = nearness
    }
    this.#remember(devpath, isMatch ? undefined : best)
    return isMatch
  }

  #remember(devpath: string, nearness: Nearness | undefined): void {
    const isKnown = this.#devices.some((device) => device.devpath === devpath)
    if (nearness === undefined && !isKnown) return
    const near = nearness && { devpath, nearness }
    const last = this.#devices.at(MAX_DEVICES - 1)
    if (!isKnown && near && last && byOrder(last, near) < 0) return
    const others = this.#devices.filter((device) => device.devpath !== devpath)
    this.#devices = [...others, ...(near ? [near] : [])].sort(byOrder).slice(0, MAX_DEVICES)
  }

  /** Why the devices do not match. */
  explain(find: (devpath: string) => DeviceView | undefined): NearMiss[] {
    return this.#devices.flatMap(({ devpath, nearness: { rule, depth } }) => {
      const [device, matcher] = [find(devpath), this.#rules[rule]]
      const match = matcher?.conditions[depth]
      if (device === undefined || match === undefined || matcher === undefined) return []
      const reason = `${this.#numberOf(rule)} asks for ${conditionText(match)}`
      const detail = isPlural(match)
        ? pluralText(match, device, matcher.conditions.filter(isPlural))
        : valueText(match, device)
      return [{ devpath, reason, detail }]
    })
  }

  /** The first condition of each rule, if no device fulfils any of them. */
  explainNothing(devices: number): string[] {
    if (this.#rules.length === 0) return ['there are no udev rules']
    if (this.#devices.length > 0) return []
    return this.#rules.flatMap(({ conditions: [first] }, rule) =>
      first === undefined
        ? []
        : `none of ${devices} devices matches ${conditionText(first)} of ${this.#numberOf(rule)}`,
    )
  }

  #numberOf(rule: number): string {
    return `rule ${rule + 1} of ${this.#rules.length}`
  }
}

/** A device that a rule does not match. */
export interface NearMiss {
  readonly devpath: string
  readonly reason: string
  readonly detail: string
}

function byOrder(a: NearDevice, b: NearDevice): number {
  return byNearness(a.nearness, b.nearness) || (a.devpath < b.devpath ? -1 : 1)
}

function byNearness(a: Nearness, b: Nearness): number {
  return b.depth - a.depth || a.missing - b.missing || a.rule - b.rule
}

/** The value that a condition has met, such as `ATTR{idVendor} is "046d"`. */
function valueText(match: Match, device: DeviceView): string {
  const value = metValue(match, device)
  return `${keyText(match)} is ${value === undefined ? 'absent' : `"${value}"`}`
}

/**
 * The values of the device and its ancestors, the nearest first, such as
 * `ATTRS{idVendor} is "046d" in 1-1.2, "1d6b" in usb1`.
 * @param plural the conditions of the rule that must hold together
 */
function pluralText(match: Match, device: DeviceView, plural: Rule): string {
  const values: string[] = []
  for (let each: DeviceView | undefined = device; each; each = each.parent) {
    const value = metValue(match, each)
    if (value !== undefined) values.push(`"${value}" in ${each.kernel}`)
  }
  const shown = values.length > MAX_VALUES ? [...values.slice(0, MAX_VALUES), '…'] : values
  const all = shown.length === 0 ? 'absent in the device and its ancestors' : shown.join(', ')
  const text = `${keyText(match)} is ${all}`
  const isElsewhere = ruleMatcher([match]).depth(device) === Infinity
  return isElsewhere
    ? `${text}; no single ancestor has all of ${plural.map(conditionText).join(', ')}`
    : text
}

function metValue(match: Match, device: DeviceView): string | undefined {
  switch (match.key) {
    case 'DEVPATH':
      return device.devpath
    case 'KERNEL':
    case 'KERNELS':
      return device.kernel
    case 'SUBSYSTEM':
    case 'SUBSYSTEMS':
      return device.subsystem
    case 'DRIVER':
    case 'DRIVERS':
      return device.driver
    case 'ENV':
      return device.properties.get(match.attribute)
    case 'TAG':
    case 'TAGS':
      return device.tags.size === 0 ? undefined : [...device.tags].join(' ')
    case 'ATTR':
    case 'ATTRS':
      return device.attribute(match.attribute)
  }
}
