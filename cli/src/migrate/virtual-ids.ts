import { formatSlotUsage, type Instance, parseSlotUsage, type SlotUsage } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'

/** The longest number that an id keeps, in digits. */
const MAX_DIGITS = 6

/**
 * The numbers of claims at the level of a Configuration. The existing system writes
 * `C:<configuration>-0:<node>` where akri.js writes `C:0:<node>`. A number stands for one slot of a
 * node, and names of resources have no namespace.
 */
export class VirtualIds {
  /** The numbers in use, by Configuration and node. */
  readonly #used = new Map<string, Set<number>>()

  constructor(instances: readonly Instance[]) {
    for (const instance of instances)
      for (const value of Object.values(instance.spec.deviceUsage)) {
        const usage = parseSlotUsage(value)
        if (usage.level !== 'configuration') continue
        const number = existingNumber(instance, usage.virtualId)
        if (number !== undefined) this.#usedOf(instance, usage.node).add(number)
      }
  }

  /** @returns undefined if the claim has the form of the existing system, or no id */
  existingForm(instance: Instance, usage: SlotUsage): string | undefined {
    if (usage.level !== 'configuration') return undefined
    const { virtualId, node } = usage
    if (existingNumber(instance, virtualId) !== undefined) return undefined
    const used = this.#usedOf(instance, node)
    let number = new RegExp(`^\\d{1,${MAX_DIGITS}}$`).test(virtualId) ? Number(virtualId) : 0
    while (used.has(number)) number++
    used.add(number)
    const id = `${instance.spec.configurationName}-${number}`
    return formatSlotUsage({ level: 'configuration', virtualId: id, node })
  }

  #usedOf({ spec: { configurationName } }: Instance, node: NodeName): Set<number> {
    const key = `${configurationName} ${node}`
    const used = this.#used.get(key) ?? new Set<number>()
    this.#used.set(key, used)
    return used
  }
}

/** The number of an id in the form of the existing system. */
function existingNumber({ spec }: Instance, virtualId: string): number | undefined {
  const prefix = `${spec.configurationName}-`
  const digits = virtualId.startsWith(prefix) ? virtualId.slice(prefix.length) : ''
  return /^\d+$/.test(digits) ? Number(digits) : undefined
}
