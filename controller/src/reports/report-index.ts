import { isDeepStrictEqual } from 'node:util'
import type { NodeReport } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey, type Reflector } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import { isEnded } from '../brokers/broker-state.js'
import { CacheIndex } from '../cache-index.js'
import { type ClusterNode, isDeleted, type Pod } from '../kubernetes-objects.js'

/**
 * Whether the agent of a report is there. `silent`: its Pod or its Node is not ready. `exchanged`:
 * its Pod was deleted, and another agent is on the node, or can be: its report does not say in
 * which namespace it was. `left`: its Pod was deleted, and no agent is on the node. `deleted`: its
 * Node was deleted, and nothing in the report counts.
 */
export type AgentPresence = 'present' | 'silent' | 'exchanged' | 'left' | 'deleted'

interface ReportCaches {
  readonly reports: Reflector<NodeReport>
  readonly nodes: Reflector<ClusterNode>
  /** The Pods of agents. */
  readonly agentPods: Reflector<Pod>
  /** The namespace of these Pods. */
  readonly agentNamespace: string
}

/**
 * The reports by Configuration. The work of a change is that of its report: listeners are called
 * only for Configurations whose status in the report has changed.
 */
export class ReportIndex {
  readonly #caches: ReportCaches
  readonly #podsByNode: CacheIndex<Pod, NodeName>
  /** The reports as the index shows them, with the presence of their agents. */
  readonly #known = new Map<ObjectKey, { report: NodeReport; presence: AgentPresence }>()
  readonly #nodes = new Map<ObjectKey, Set<ObjectKey>>()
  readonly #unreported = new Map<NodeName, Pod>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #nodeListeners = new Listeners<[node: NodeName]>()

  constructor(caches: ReportCaches, signal: AbortSignal) {
    this.#caches = caches
    const { reports, nodes, agentPods } = caches
    this.#podsByNode = new CacheIndex(agentPods, ({ node }) => node || undefined, signal)
    const update = (key: ObjectKey) => this.#update(key)
    reports.onChange(update, signal)
    nodes.onChange(update, signal)
    this.#podsByNode.onChange((node) => this.#update(objectKey('', node)), signal)
  }

  /** The reports that have a status of the Configuration. */
  *of(configuration: ObjectKey): Iterable<{ report: NodeReport; presence: AgentPresence }> {
    for (const node of this.#nodes.get(configuration) ?? []) {
      const entry = this.#known.get(node)
      if (entry !== undefined) yield entry
    }
  }

  /** The presence of the agent of a node; undefined if the node has no report. */
  presence(node: NodeName): AgentPresence | undefined {
    return this.#known.get(objectKey('', node))?.presence
  }

  /**
   * Calls back with a Configuration after the status of a node changed, or the presence of an
   * agent.
   */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  /**
   * Calls back with a node after its report was added or removed, or the presence of its agent
   * changed, also in `unreported`.
   */
  onPresence(listener: (node: NodeName) => void, signal: AbortSignal): void {
    this.#nodeListeners.add(listener, signal)
  }

  /** The Pods of agents that are on a node, and do not end. */
  agentsOn(node: NodeName): Pod[] {
    return this.#podsByNode.get(node).filter((pod) => !isDeleted(pod) && !isEnded(pod))
  }

  /** The nodes without a report that have an agent, none of which is ready; with its Pod. */
  get unreported(): ReadonlyMap<NodeName, Pod> {
    return this.#unreported
  }

  #update(key: ObjectKey): void {
    const isSame = this.#updateUnreported(key)
    const report = this.#caches.reports.get(key)
    const before = this.#known.get(key)
    const after = report && { report, presence: this.#presenceOf(report) }
    if (after === undefined) this.#known.delete(key)
    else this.#known.set(key, after)
    const isMoved = before?.presence !== after?.presence
    for (const configuration of this.#changed(key, before?.report, report, isMoved))
      this.#listeners.tell(configuration)
    if (isMoved || !isSame) this.#nodeListeners.tell(key.slice(1) as NodeName)
  }

  /** @returns whether the node is as before: in `unreported` for the same problem, or not in it */
  #updateUnreported(key: ObjectKey): boolean {
    const { reports, nodes } = this.#caches
    const node = key.slice(1) as NodeName
    const before = this.#unreported.get(node)
    const agents =
      reports.get(key) === undefined && nodes.get(key) !== undefined ? this.agentsOn(node) : []
    const [pod] = agents.some(({ ready }) => ready) ? [] : agents
    if (pod === undefined) this.#unreported.delete(node)
    else this.#unreported.set(node, pod)
    return (
      (before === undefined) === (pod === undefined) &&
      before?.problem?.reason === pod?.problem?.reason
    )
  }

  /** Follows a report, and gives the Configurations with another status. */
  #changed(
    key: ObjectKey,
    before: NodeReport | undefined,
    after: NodeReport | undefined,
    isMoved: boolean,
  ): Set<ObjectKey> {
    if (before === after && !isMoved) return new Set()
    const old: NodeReport['configurations'] = before?.configurations ?? {}
    const now: NodeReport['configurations'] = after?.configurations ?? {}
    const changed = new Set<ObjectKey>()
    for (const configuration of Object.keys(old) as ObjectKey[]) {
      if (now[configuration] !== undefined) continue
      const nodes = this.#nodes.get(configuration)
      nodes?.delete(key)
      if (nodes?.size === 0) this.#nodes.delete(configuration)
      changed.add(configuration)
    }
    for (const configuration of Object.keys(now) as ObjectKey[]) {
      if (!isMoved && isDeepStrictEqual(old[configuration], now[configuration])) continue
      const nodes = this.#nodes.get(configuration) ?? new Set()
      this.#nodes.set(configuration, nodes.add(key))
      changed.add(configuration)
    }
    return changed
  }

  #presenceOf(report: NodeReport): AgentPresence {
    const { nodes, agentPods } = this.#caches
    const { name } = report.metadata
    const node = nodes.get(keyOf(report))
    if (node === undefined) return 'deleted'
    const key = this.#podOf(report)
    if (key === undefined) return node.ready ? 'present' : 'silent'
    const pod = agentPods.get(key)
    // Any agent can name any Pod in its report.
    if (pod?.node === name) return node.ready && pod.ready ? 'present' : 'silent'
    const isNoneLeft = report.agentNamespace !== undefined && !this.#podsByNode.get(name).length
    return isNoneLeft ? 'left' : 'exchanged'
  }

  /** @returns undefined for an agent whose Pod the controller does not see */
  #podOf({ agentPod, agentNamespace }: NodeReport): ObjectKey | undefined {
    const seen = this.#caches.agentNamespace
    return agentPod === undefined || (agentNamespace ?? seen) !== seen
      ? undefined
      : objectKey(seen, agentPod)
  }
}
