import { inTurns } from '@akrijs/sdk'
import { ClosestDevices, type NearMiss } from './closest-devices.js'
import type { DeviceTree } from './device-tree.js'
import type { Rule } from './rule.js'
import { ruleMatcher } from './rule-matcher.js'
import type { SysfsDevice } from './sysfs-device.js'

/** The devices that match the rules of a Configuration. */
export class RuleSet {
  readonly #closest: ClosestDevices
  /** The paths of matching devices, with the devices to offer in their place. */
  readonly #matches = new Map<string, SysfsDevice>()

  constructor(rules: readonly Rule[]) {
    this.#closest = new ClosestDevices(rules.map(ruleMatcher))
  }

  /** Matches devices again. @returns whether the result may differ, or why it is empty */
  async update(tree: DeviceTree, changed: ReadonlySet<string>): Promise<boolean> {
    let differs = false
    const before = this.#closest.devpaths
    for await (const devpath of inTurns(changed)) {
      const device = tree.listed.has(devpath) ? tree.device(devpath) : undefined
      const matches = this.#closest.matches(devpath, device) && device?.present
      if (device !== undefined && matches)
        this.#matches.set(devpath, nearestWithNode(device) ?? device)
      else if (!this.#matches.delete(devpath)) continue
      differs = true
    }
    const closest = [...before, ...this.#closest.devpaths]
    return differs || (this.#matches.size === 0 && closest.some((devpath) => changed.has(devpath)))
  }

  /** The devices that came closest to the rules; none if a device matches. */
  nearMisses(tree: DeviceTree): NearMiss[] {
    return this.#matches.size > 0 ? [] : this.#closest.explain((devpath) => tree.device(devpath))
  }

  /** Why no device came close to the rules; nothing if a device did. */
  remarks(tree: DeviceTree): string[] {
    return this.#matches.size > 0 ? [] : this.#closest.explainNothing(tree.listed.size)
  }

  /**
   * The devices to offer, each once, in the order of paths: devices that match any rule, or their
   * nearest ancestors with a device node.
   */
  get found(): SysfsDevice[] {
    const found = new Map([...this.#matches.values()].map((device) => [device.devpath, device]))
    return [...found.values()].sort((a, b) => (a.devpath < b.devpath ? -1 : 1))
  }
}

function nearestWithNode(device: SysfsDevice): SysfsDevice | undefined {
  for (let ancestor: SysfsDevice | undefined = device; ancestor; ancestor = ancestor.parent)
    if (ancestor.devnode !== undefined) return ancestor
  return undefined
}
