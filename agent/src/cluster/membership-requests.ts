import type { Instance, Membership } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { REPORT_BOUNDS } from '../limits.js'
import type { NodeReportWriter } from '../report/node-report-writer.js'
import type { ObjectCache } from './cluster.js'

interface MembershipRequestsOptions {
  readonly node: NodeName
  readonly clock: Clock
  readonly report: Pick<NodeReportWriter, 'isMissing' | 'wishChanged' | 'statusChanged'>
  readonly instances: Pick<ObjectCache<Instance>, 'get' | 'onChange'>
  /** The number of nodes in the cluster, as far as it is known. */
  knownNodes(): number
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/**
 * From so many nodes on, the controller writes for all of them: each write of an Instance wakes all
 * agents that see its device. With fewer nodes, each agent writes at once.
 */
const LARGE = 10
/**
 * How long an agent waits for the controller before it writes itself, in milliseconds; at random up
 * to twice as long. The controller may be down, or may be of another system. A node that waits
 * offers the device and claims its slots all the same. Without the controller, each of N nodes
 * writes, and each write wakes N agents: the API server sends about one event in `perEvent`.
 */
const PATIENCE_MS = { least: 5000, perEvent: 1, most: 600_000 }

/**
 * Asks the controller, by the report of the node, to join and to leave shared Instances. A wish
 * holds until it has come true, or until the agent wants the opposite.
 */
export class MembershipRequests {
  readonly #options: Required<MembershipRequestsOptions>
  /**
   * The last wish about each Instance that exists, also if it has come true: the report on the
   * server can still have it, and this agent replaces it before it writes the opposite.
   */
  readonly #requests = new Map<ObjectKey, Membership & { readonly until: number }>()
  /** The wishes for the report: those that have not come true. */
  readonly #wishes = new Map<ObjectKey, Membership>()

  constructor(options: MembershipRequestsOptions, signal: AbortSignal) {
    this.#options = { random: Math.random, ...options }
    options.instances.onChange((key) => this.#settle(key), signal)
  }

  get wishes(): ReadonlyMap<ObjectKey, Membership> {
    return this.#wishes
  }

  /**
   * @param isUrgent whether the agent writes itself in any case
   * @returns whether to wait for the controller; otherwise the agent writes itself
   */
  ask(key: ObjectKey, wish: Membership['wish'], isUrgent = false): boolean {
    const { clock, instances, knownNodes, node, report } = this.#options
    const instance = instances.get(key)
    if (!instance?.spec.shared || report.isMissing) return false
    const { metadata, spec } = instance
    const isJoin = wish === 'join'
    if (spec.nodes.includes(node) === isJoin) return false
    if (isJoin && metadata.deletionTimestamp !== undefined) return false
    // The last node deletes the Instance itself.
    const mayWait = !isUrgent && (isJoin || spec.nodes.length > 1)
    const before = this.#requests.get(key)
    const isKnown = before?.uid === metadata.uid
    if (isKnown && before.wish === wish && this.#wishes.has(key))
      return mayWait && clock.monotonicMs() < before.until
    const nodes = Math.max(knownNodes(), spec.nodes.length)
    const isPatient = mayWait && nodes >= LARGE
    // An earlier wish for the opposite must not undo what the agent writes.
    if (!isPatient && !isKnown) return false
    this.#set(key, { uid: metadata.uid, wish }, isPatient ? patienceMs(nodes) : 0)
    return isPatient
  }

  /** Takes back a wish to leave: the node serves the device again. */
  stay(key: ObjectKey): void {
    const request = this.#requests.get(key)
    if (request?.wish !== 'leave') return
    this.#set(key, { uid: request.uid, wish: 'join' }, patienceMs(this.#options.knownNodes()))
  }

  /** @param ms how long to wait for the controller at least */
  #set(key: ObjectKey, wish: Membership, ms: number): void {
    const { clock, random, report } = this.#options
    // The controller sees a later wish later.
    const turns = 1 + Math.floor(this.#wishes.size / REPORT_BOUNDS.memberships)
    const until = clock.monotonicMs() + ms * turns * (1 + random())
    this.#requests.set(key, { ...wish, until })
    this.#wishes.set(key, wish)
    report.wishChanged()
  }

  /** Takes back a wish that has come true, or that means nothing any more. */
  #settle(key: ObjectKey): void {
    const { instances, node, report } = this.#options
    const request = this.#requests.get(key)
    if (request === undefined) return
    const instance = instances.get(key)
    if (instance?.metadata.uid !== request.uid) this.#requests.delete(key)
    else if (instance.spec.nodes.includes(node) !== (request.wish === 'join')) return
    // The next write takes it out of the report, at once if another wish has room then.
    if (this.#wishes.delete(key) && this.#wishes.size >= REPORT_BOUNDS.memberships)
      report.statusChanged()
  }
}

function patienceMs(nodes: number): number {
  const { least, perEvent, most } = PATIENCE_MS
  return Math.min(most, least + perEvent * nodes * nodes)
}
