import type { Instance, Membership } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import type { NodeReportWriter } from './node-report-writer.js'

interface MembershipRequestsOptions {
  readonly node: NodeName
  readonly clock: Clock
  readonly report: Pick<NodeReportWriter, 'isMissing' | 'setMembership'>
  readonly instances: { get(key: ObjectKey): Instance | undefined }
  /** The number of nodes in the cluster, as far as it is known. */
  knownNodes(): number
}

/**
 * From so many nodes on, the controller writes for all of them: each write of an Instance wakes all
 * agents that see its device. With fewer nodes, each agent writes at once.
 */
const LARGE = 10
/**
 * How long an agent waits for the controller before it writes itself, in milliseconds; at random up
 * to twice as long. The controller may be down, or may be of another system.
 */
const PATIENCE_MS = 5000

interface Request extends Membership {
  readonly until: number
}

/** Asks the controller, by the report of the node, to join and to leave shared Instances. */
export class MembershipRequests {
  readonly #options: MembershipRequestsOptions
  readonly #random: () => number
  readonly #requests = new Map<ObjectKey, Request>()

  /** @param random of [0, 1), for tests */
  constructor(options: MembershipRequestsOptions, random: () => number = Math.random) {
    this.#options = options
    this.#random = random
  }

  /**
   * @param isUrgent whether the agent writes itself in any case
   * @returns whether to wait for the controller; otherwise the agent writes itself
   */
  ask(instance: Instance, wish: Membership['wish'], isUrgent = false): boolean {
    const { clock, knownNodes, report } = this.#options
    const { metadata, spec } = instance
    if (!spec.shared || report.isMissing) return false
    const key = keyOf(instance)
    const now = clock.monotonicMs()
    const before = this.#requests.get(key)
    if (before?.uid === metadata.uid && before.wish === wish) return !isUrgent && now < before.until
    const isPatient = !isUrgent && Math.max(knownNodes(), spec.nodes.length) >= LARGE
    // An earlier wish for the opposite must not undo what the agent writes.
    if (!isPatient && before?.uid !== metadata.uid) return false
    this.#takeBackOld()
    const patienceMs = isPatient ? PATIENCE_MS * (1 + this.#random()) : 0
    this.#requests.set(key, { uid: metadata.uid, wish, until: now + patienceMs })
    report.setMembership(key, { uid: metadata.uid, wish })
    return isPatient
  }

  /** Takes back wishes that have come true. They leave the report with its next write. */
  #takeBackOld(): void {
    const { instances, node, report } = this.#options
    for (const [key, { uid, wish }] of this.#requests) {
      const instance = instances.get(key)
      const isIn = instance?.spec.nodes.includes(node) === true
      if (instance?.metadata.uid === uid && isIn === (wish === 'leave')) continue
      this.#requests.delete(key)
      report.setMembership(key, undefined)
    }
  }
}
