import { isDeepStrictEqual } from 'node:util'
import type { NodeReport } from '@akrijs/api'
import {
  keyOf,
  keyParts,
  type NodeName,
  type ObjectKey,
  objectKey,
  type Reflector,
} from '@akrijs/kube'
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

/** What the index shows of a node. */
interface NodeState {
  readonly report?: NodeReport | undefined
  /** That of the agent of the report. */
  readonly presence?: AgentPresence | undefined
  /** The Pod of an agent that is not ready, on a node that has no report and no ready agent. */
  readonly unreported?: Pod | undefined
}

/**
 * The reports of nodes, with the presence of their agents. Listeners are called only for the
 * Configurations whose status in a report has changed.
 */
export class ReportIndex {
  readonly #caches: ReportCaches
  readonly #podsByNode: CacheIndex<Pod, NodeName>
  readonly #known = new Map<NodeName, NodeState>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #nodeListeners = new Listeners<[node: NodeName]>()

  constructor(caches: ReportCaches, signal: AbortSignal) {
    this.#caches = caches
    const { reports, nodes, agentPods } = caches
    this.#podsByNode = new CacheIndex(agentPods, ({ node }) => node || undefined, signal)
    const update = (key: ObjectKey) => this.#update(keyParts(key).name as NodeName)
    reports.onChange(update, signal)
    nodes.onChange(update, signal)
    this.#podsByNode.onChange((node) => this.#update(node), signal)
  }

  /**
   * The reports that have a status of the Configuration. One after the other: 1,000 reports take
   * less than 1 ms, and a summary is computed each 0.1 s at most.
   */
  *of(configuration: ObjectKey): Iterable<{ report: NodeReport; presence: AgentPresence }> {
    for (const { report, presence } of this.#known.values())
      if (presence !== undefined && report?.configurations[configuration] !== undefined)
        yield { report, presence }
  }

  /** The presence of the agent of a node; undefined if the node has no report. */
  presence(node: NodeName): AgentPresence | undefined {
    return this.#known.get(node)?.presence
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
   * changed, also of an agent without a report.
   */
  onPresence(listener: (node: NodeName) => void, signal: AbortSignal): void {
    this.#nodeListeners.add(listener, signal)
  }

  /** The Pods of agents that are on a node, and do not end. */
  agentsOn(node: NodeName): Pod[] {
    return this.#podsByNode.get(node).filter((pod) => !isDeleted(pod) && !isEnded(pod))
  }

  /** The Pod of an agent that has never reported, and is not ready. */
  unreportedOn(node: NodeName): Pod | undefined {
    return this.#known.get(node)?.unreported
  }

  /** The nodes with such a Pod. */
  *unreported(): Iterable<[NodeName, Pod]> {
    for (const [node, { unreported }] of this.#known) if (unreported) yield [node, unreported]
  }

  #update(node: NodeName): void {
    const before = this.#known.get(node) ?? {}
    const after = this.#stateOf(node)
    if (after.report || after.unreported) this.#known.set(node, after)
    else this.#known.delete(node)
    const isMoved = before.presence !== after.presence
    for (const configuration of changedIn(before.report, after.report, isMoved))
      this.#listeners.tell(configuration)
    const [old, now] = [before.unreported, after.unreported]
    const isSame = !old === !now && old?.problem?.reason === now?.problem?.reason
    if (isMoved || !isSame) this.#nodeListeners.tell(node)
  }

  #stateOf(node: NodeName): NodeState {
    const key = objectKey('', node)
    const report = this.#caches.reports.get(key)
    if (report !== undefined) return { report, presence: this.#presenceOf(report) }
    const agents = this.#caches.nodes.get(key) === undefined ? [] : this.agentsOn(node)
    return agents.some(({ ready }) => ready) ? {} : { unreported: agents[0] }
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

/** The Configurations whose status in the report of a node has changed. */
function changedIn(
  before: NodeReport | undefined,
  after: NodeReport | undefined,
  isMoved: boolean,
): ObjectKey[] {
  if (before === after && !isMoved) return []
  const old: NodeReport['configurations'] = before?.configurations ?? {}
  const now: NodeReport['configurations'] = after?.configurations ?? {}
  const keys = new Set([...Object.keys(old), ...Object.keys(now)] as ObjectKey[])
  return [...keys].filter((key) => isMoved || !isDeepStrictEqual(old[key], now[key]))
}
