import type { NodeName } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import type { AgentPresence } from '../reports/report-index.js'

interface AbsentAgentsOptions {
  readonly state: ClusterState
  readonly clock: Clock
  /** How long an agent may be absent, in milliseconds. */
  readonly graceMs: number
}

/**
 * The nodes whose reports are there, and whose agents are not. Each turn of a replica counts the
 * grace period again: the controller may have seen nothing for a long time.
 */
export class AbsentAgents {
  readonly #options: AbsentAgentsOptions
  /** Since when the agent of a node is absent in the same way, by `monotonicMs`. */
  readonly #since = new Map<NodeName, { readonly presence: AgentPresence; readonly at: number }>()

  constructor(options: AbsentAgentsOptions) {
    this.#options = options
  }

  /**
   * For how much longer the agent of a node may be absent, in milliseconds, at least 0. An agent
   * that has left counts from then on: a new agent that did not start may have been there before.
   * @returns undefined if the agent is there, or the node has no report
   */
  graceLeftMs(node: NodeName): number | undefined {
    const { state, clock, graceMs } = this.#options
    const presence = state.hasReports ? state.reportIndex.presence(node) : undefined
    if (presence === undefined || presence === 'present' || presence === 'silent') {
      this.#since.delete(node)
      return undefined
    }
    const now = clock.monotonicMs()
    const absence = this.#since.get(node)
    const at = absence?.presence === presence ? absence.at : now
    this.#since.set(node, { presence, at })
    return Math.max(0, at + graceMs - now)
  }
}
