import type { Instance } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import type { Replaced } from '../labels.js'

/**
 * What broker Pods that have just gone leave to their successors, for roll-outs. A successor keeps
 * it in an annotation.
 */
export class BrokerSuccessions {
  readonly #left = new Map<ObjectKey, Map<NodeName, Replaced>>()
  /** The uids of the Instances that were seen in this turn. */
  readonly #met = new Map<ObjectKey, string>()

  /**
   * To be called before each plan. At the first sight of an Instance in this turn, the controller
   * before may have deleted the brokers that are absent.
   * @param hadBrokers whether the Instance can have had brokers before this turn
   */
  meet(instance: Instance, pods: readonly Pod[], hadBrokers: boolean): void {
    const { metadata, spec } = instance
    const key = keyOf(instance)
    if (this.#met.get(key) === metadata.uid) return
    this.forget(key)
    this.#met.set(key, metadata.uid)
    if (!hadBrokers) return
    const present = pods.filter((pod) => !isDeleted(pod))
    const vacant = spec.nodes.filter(
      (node) => !present.some(({ targetNode }) => targetNode === node),
    )
    for (const node of vacant.slice(0, Math.max(0, spec.capacity - present.length)))
      this.leave(key, node, 'working')
  }

  forget(instance: ObjectKey): void {
    this.#left.delete(instance)
    this.#met.delete(instance)
  }

  /** Records what the Pod of a node leaves. */
  leave(instance: ObjectKey, node: NodeName, replaced: Replaced | undefined): void {
    const left = this.#left.get(instance) ?? new Map<NodeName, Replaced>()
    if (replaced === undefined) left.delete(node)
    else left.set(node, replaced)
    if (left.size === 0) this.#left.delete(instance)
    else this.#left.set(instance, left)
  }

  /** What the successor on a node gets. */
  of(instance: ObjectKey, node: NodeName): Replaced | undefined {
    return this.#find(instance, node)?.replaced
  }

  /** The successor on a node was created. */
  take(instance: ObjectKey, node: NodeName): void {
    const found = this.#find(instance, node)
    if (found !== undefined) this.leave(instance, found.node, undefined)
  }

  /** The last Pod of the node, or else that of another node: a broker may move. */
  #find(instance: ObjectKey, node: NodeName) {
    const left = [...(this.#left.get(instance) ?? [])].map(([from, replaced]) => ({
      node: from,
      replaced,
    }))
    return (
      left.find((each) => each.node === node) ??
      left.find(({ replaced }) => replaced === 'working') ??
      left[0]
    )
  }
}
