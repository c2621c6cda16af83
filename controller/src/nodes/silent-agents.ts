import type { NodeName } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'

interface SilentAgentsOptions {
  readonly state: ClusterState
  readonly clock: Clock
}

/**
 * For how long the agents of nodes with a report have not been there. Each turn of a replica counts
 * again.
 */
export class SilentAgents {
  readonly #options: SilentAgentsOptions
  /** By `monotonicMs`. */
  readonly #since = new Map<NodeName, number>()

  constructor(options: SilentAgentsOptions, signal: AbortSignal) {
    this.#options = options
    options.state.reportIndex.onPresence((node) => this.forMs(node), signal)
  }

  /** @returns undefined if the agent is there, or nothing in its report counts */
  forMs(node: NodeName): number | undefined {
    const { state, clock } = this.#options
    const presence = state.reportIndex.presence(node)
    if (presence === undefined || presence === 'present' || presence === 'deleted') {
      this.#since.delete(node)
      return undefined
    }
    const now = clock.monotonicMs()
    const since = this.#since.get(node) ?? now
    this.#since.set(node, since)
    return now - since
  }
}
