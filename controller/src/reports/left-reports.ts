import type { Compatibility, NodeReport } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type NodeName,
  objectKey,
  type ReconcileResult,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import type { FirstSights } from '../first-sights.js'
import type { Pod } from '../kubernetes-objects.js'
import { graceLeftMs } from '../nodes/agent-absence.js'
import { isReplacedByOther } from '../nodes/node-presence.js'

interface LeftReportsOptions {
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly sights: FirstSights
  readonly log: Logger
  /** How long an agent may be absent, in milliseconds. */
  readonly nodeGraceMs: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility
}

/** When a report is looked at again whose node is still in an Instance, in milliseconds. */
const RECHECK_MS = 10_000

/**
 * Deletes the reports of agents that were deleted, for example because the DaemonSet selects fewer
 * nodes. With a Node, the garbage collector deletes its report.
 */
export class LeftReports {
  readonly #options: LeftReportsOptions

  constructor(options: LeftReportsOptions) {
    this.#options = options
  }

  async reconcile(node: NodeName, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, log, nodeGraceMs } = this.#options
    const key = objectKey('', node)
    const report = state.reports.cache.get(key)
    const leftMs = graceLeftMs(node, nodeGraceMs, this.#options)
    if (report === undefined || leftMs === undefined) return {}
    if (leftMs > 0) return { requeueAfterMs: leftMs }
    if (state.instancesByNode.has(node) && (await this.#isNeeded(report, signal)))
      return { requeueAfterMs: RECHECK_MS }
    const { uid, resourceVersion } = report.metadata
    try {
      await state.reports.api.delete(key, { uid, resourceVersion }, { signal })
      log.info({ node }, 'report of a node without an agent deleted')
    } catch (error) {
      // An agent has written the report meanwhile.
      if (!ApiError.is(error, 409)) throw error
    }
    return {}
  }

  /**
   * Whether the report of a node is needed to take the node out of its Instances: only a report
   * shows that an agent has left. The next agent may never start, and then leave too.
   */
  async #isNeeded({ metadata, agentNamespace }: NodeReport, signal: AbortSignal): Promise<boolean> {
    const { state, clock, nodeGraceMs } = this.#options
    const { name: node } = metadata
    const presence = state.reportIndex.presence(node)
    if (presence === 'left') return !(await isReplacedByOther(node, this.#options, signal))
    // Without its namespace, an agent never counts as one that has left.
    if (presence !== 'exchanged' || agentNamespace === undefined) return false
    // An agent of Akri 0.13 works without a report.
    const works = ({ ready, readySince }: Pod) =>
      ready && readySince + nodeGraceMs <= clock.monotonicMs()
    return !state.reportIndex.agentsOn(node).some(works)
  }
}
