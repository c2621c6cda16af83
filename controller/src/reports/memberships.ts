import type { Membership } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey, type ReconcileResult } from '@akrijs/kube'
import { changeInstance, planMemberships } from '../instance-nodes.js'
import type { Term } from '../term.js'

/** Lets nodes join and leave shared Instances, as their reports ask. */
export class Memberships {
  readonly #term: Term
  /**
   * Wishes to leave that have come true, by node. A report can have them for long after, and the
   * node may have joined again by itself: for containers that run there.
   */
  readonly #hasLeft = new Map<NodeName, Set<string>>()

  constructor(term: Term) {
    this.#term = term
  }

  /**
   * Follows the report of a node.
   * @returns the Instances that the node wants to join or leave
   */
  follow(node: NodeName): readonly ObjectKey[] {
    const { memberships = {} } = this.#term.state.reports.cache.get(objectKey('', node)) ?? {}
    const wishes = Object.entries(memberships) as [ObjectKey, Membership][]
    const before = this.#hasLeft.get(node)
    if (before !== undefined) {
      const ids = wishes.map(([key, wish]) => idOf(key, wish)).filter((id) => before.has(id))
      if (ids.length === 0) this.#hasLeft.delete(node)
      else this.#hasLeft.set(node, new Set(ids))
    }
    return wishes.map(([key]) => key)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, log, compatibility } = this.#term
    const instance = state.instances.cache.get(key)
    // An agent creates and deletes the Instance of a device that is not shared.
    if (!instance?.spec.shared) return {}
    const { metadata, spec } = instance
    const wishes = new Map<NodeName, Membership>()
    for (const report of state.reports.cache.list()) {
      const { name: node } = report.metadata
      const wish = report.memberships[key]
      if (wish === undefined) continue
      const isOut = wish.uid === metadata.uid && !spec.nodes.includes(node)
      if (wish.wish === 'leave' && isOut) this.#leave(node, key, wish)
      else if (!this.#hasLeft.get(node)?.has(idOf(key, wish))) wishes.set(node, wish)
    }
    if (wishes.size === 0) return {}
    // After a node was taken out, the report of its former agent still asks to join.
    const isPresent = (node: NodeName) => state.reportIndex.presence(node) === 'present'
    const change = planMemberships(instance, wishes, isPresent, compatibility)
    // After a lost race, the watch shows the Instance as it is now.
    if (await changeInstance(state.instances, instance, change, signal)) {
      for (const [node, wish] of wishes)
        if (wish.wish === 'leave' && isPresent(node)) this.#leave(node, key, wish)
      log.debug({ instance: key, change: change.do }, 'nodes of the Instance changed')
    }
    return {}
  }

  #leave(node: NodeName, instance: ObjectKey, wish: Membership): void {
    const id = idOf(instance, wish)
    // During the write, the agent may have taken the wish back.
    const now = this.#term.state.reports.cache.get(objectKey('', node))?.memberships[instance]
    if (now === undefined || idOf(instance, now) !== id) return
    this.#hasLeft.set(node, (this.#hasLeft.get(node) ?? new Set<string>()).add(id))
  }
}

function idOf(instance: ObjectKey, { wish, uid }: Membership): string {
  return `${wish} ${uid} ${instance}`
}
