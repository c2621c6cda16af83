import type { Compatibility, Membership, NodeReport } from '@akrijs/api'
import type { NodeName, ObjectKey, ReconcileResult } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import { changeInstance } from '../instance-change.js'
import { planMemberships } from './membership-plan.js'

interface MembershipsOptions {
  readonly state: Pick<ClusterState, 'instances' | 'reportIndex'>
  readonly log: Logger
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility
}

/** Lets nodes join and leave shared Instances, as their reports ask. */
export class Memberships {
  readonly #options: MembershipsOptions
  /** The wishes of all reports, by Instance. */
  readonly #wishes = new Map<ObjectKey, Map<NodeName, Membership>>()
  readonly #reports = new Map<NodeName, NodeReport['memberships']>()

  constructor(options: MembershipsOptions) {
    this.#options = options
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
      const known = before[key]
      if (wish === undefined) return false
      this.#wishes.set(
        key,
        (this.#wishes.get(key) ?? new Map<NodeName, Membership>()).set(node, wish),
      )
      return known?.uid !== wish.uid || known.wish !== wish.wish
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
    const { state, log, compatibility } = this.#options
    const instance = state.instances.cache.get(key)
    const wishes = this.#wishes.get(key)
    if (instance === undefined || wishes === undefined) return {}
    // After a node was taken out, the report of its former agent still asks to join.
    const isPresent = (node: NodeName) => state.reportIndex.presence(node) === 'present'
    const change = planMemberships(instance, wishes, isPresent, compatibility)
    // After a lost race, the watch shows the Instance as it is now.
    if (await changeInstance(state.instances, instance, change, signal))
      log.debug({ instance: key, change: change.do }, 'nodes of the Instance changed')
    return {}
  }
}

function keysOf(memberships: NodeReport['memberships']): ObjectKey[] {
  return Object.keys(memberships) as ObjectKey[]
}
