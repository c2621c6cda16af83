import { holderOf, type Instance, type NodeName, type ObjectKey, type SlotName, slotIndex } from '@akrijs/kube'
import type { ServedInstance } from '../instances/served-instance.js'

/** Of how many Instances this is remembered; then the one that changed longest ago is forgotten. */
const MAX_INSTANCES = 10_000

/**
 * What Instances last said of slots of other nodes. One that is made anew says it again: the agent of such a node may be away
 * for the moment, and its containers run on. A claim that nobody needs any more is taken back by its node.
 */
export class ForeignClaims {
  readonly #node: NodeName
  readonly #last = new Map<ObjectKey, readonly (readonly [SlotName, string])[]>()

  constructor(node: NodeName) {
    this.#node = node
  }

  /** Takes note of an Instance that came or changed. */
  follow(key: ObjectKey, { spec }: Instance): void {
    const claims = Object.entries(spec.deviceUsage)
      .filter(([, usage]) => (holderOf(usage) ?? this.#node) !== this.#node)
      .map(([slot, usage]) => [slot as SlotName, usage] as const)
    this.#last.delete(key)
    if (claims.length > 0) this.#last.set(key, claims)
    const [oldest] = this.#last.keys()
    if (this.#last.size > MAX_INSTANCES && oldest !== undefined) this.#last.delete(oldest)
  }

  /** Those within the capacity. */
  of({ key, name, capacity }: Pick<ServedInstance, 'key' | 'name' | 'capacity'>): Record<SlotName, string> {
    const claims = this.#last.get(key) ?? []
    return Object.fromEntries(claims.filter(([slot]) => (slotIndex(name, slot) ?? capacity) < capacity))
  }
}
