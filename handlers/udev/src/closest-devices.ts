import { conditionText, keyText } from './condition-text.js'
import type { DeviceView } from './device-view.js'
import type { Match } from './rule.js'
import { isPlural, type RuleMatcher } from './rule-matcher.js'

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

/**
 * The devices that came closest to the rules of a Configuration, for people. It costs nothing: the
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
      return [{ devpath, reason, detail: valueText(match, device) }]
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
  const what = value === undefined ? 'absent' : `"${value}"`
  const orAncestor = isPlural(match) ? ' for the device itself' : ''
  return `${keyText(match)} is ${what}${orAncestor}`
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
