import type { Instance, Membership, NodeReport } from '@akrijs/api'
import type { NodeName, ObjectKey, ReconcileResult } from '@akrijs/kube'
import { changeInstance, planMemberships, type Wishes } from '../instance-nodes.js'
import type { Term } from '../term.js'

/** Lets nodes join and leave shared Instances, as their reports ask. */
export class Memberships {
  readonly #term: Term
  /** The wishes of all reports, by Instance. */
  readonly #wishes = new Map<ObjectKey, Map<NodeName, Membership>>()
  readonly #reports = new Map<NodeName, NodeReport['memberships']>()
  /**
   * Wishes to leave that have come true. A report can have them for long after, and the node may
   * have joined again by itself: for containers that run there.
   */
  readonly #hasLeft = new WeakSet<Membership>()

  constructor(term: Term) {
    this.#term = term
  }

  /**
   * Takes over the present wishes of a node.
   * @param after undefined if the node has no report
   * @returns the Instances with new wishes
   */
  follow(node: NodeName, after: NodeReport['memberships'] = {}): readonly ObjectKey[] {
    const before = this.#reports.get(node) ?? {}
    for (const key of keysOf(before)) {
      if (Object.hasOwn(after, key)) continue
      const wishes = this.#wishes.get(key)
      wishes?.delete(node)
      if (wishes?.size === 0) this.#wishes.delete(key)
    }
    if (keysOf(after).length === 0) this.#reports.delete(node)
    else this.#reports.set(node, after)
    return keysOf(after).filter((key) => {
      const wish = after[key]
      const wishBefore = before[key]
      if (wish === undefined) return false
      const wishes = this.#wishes.get(key) ?? new Map<NodeName, Membership>()
      this.#wishes.set(key, wishes)
      const isSameWish = wishBefore?.uid === wish.uid && wishBefore.wish === wish.wish
      // The Instance shows whether a wish has come true.
      if (!isSameWish || !wishes.has(node)) wishes.set(node, wish)
      return !isSameWish
    })
  }

  /** The Instances that a node wants to join or leave. */
  instancesOf(node: NodeName): readonly ObjectKey[] {
    return keysOf(this.#reports.get(node) ?? {})
  }

  hasWishes(instance: ObjectKey): boolean {
    return this.#wishes.has(instance)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, log, compatibility } = this.#term
    const instance = state.instances.cache.get(key)
    if (instance === undefined) return {}
    const wishes = this.#openWishes(key, instance)
    if (wishes.size === 0) return {}
    // After a node was taken out, the report of its former agent still asks to join.
    const isPresent = (node: NodeName) => state.reportIndex.presence(node) === 'present'
    const change = planMemberships(instance, wishes, isPresent, compatibility)
    // After a lost race, the watch shows the Instance as it is now.
    if (await changeInstance(state.instances, instance, change, signal)) {
      for (const [node, wish] of wishes)
        if (wish.wish === 'leave' && isPresent(node)) this.#hasLeft.add(wish)
      log.debug({ instance: key, change: change.do }, 'nodes of the Instance changed')
    }
    return {}
  }

  /** The wishes about an Instance that have not come true as wishes to leave. */
  #openWishes(key: ObjectKey, { metadata, spec }: Instance): Wishes {
    const wishes = this.#wishes.get(key) ?? new Map<NodeName, Membership>()
    for (const [node, wish] of wishes)
      if (wish.wish === 'leave' && wish.uid === metadata.uid && !spec.nodes.includes(node))
        this.#hasLeft.add(wish)
    return new Map([...wishes].filter(([, wish]) => !this.#hasLeft.has(wish)))
  }
}

function keysOf(memberships: NodeReport['memberships']): ObjectKey[] {
  return Object.keys(memberships) as ObjectKey[]
}
