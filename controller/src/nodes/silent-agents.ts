import type { NodeName } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'

interface SilentAgentsOptions {
  readonly state: ClusterState
  readonly clock: Clock
}

/**
 * For how long the agents of nodes have not been there, or have not reported. Each turn of a
 * replica counts again.
 */
export class SilentAgents {
  readonly #options: SilentAgentsOptions
  /** By `monotonicMs`. */
  readonly #since = new Map<NodeName, number>()
  /** The same of agents that have never reported. */
  readonly #unreportedSince = new Map<NodeName, number>()

  constructor(options: SilentAgentsOptions, signal: AbortSignal) {
    this.#options = options
    options.state.reportIndex.onPresence((node) => this.forMs(node), signal)
    options.state.reportIndex.onUnreported((node) => this.unreportedForMs(node), signal)
  }

  /** @returns undefined if the agent is there, or nothing in its report counts */
  forMs(node: NodeName): number | undefined {
    const presence = this.#options.state.reportIndex.presence(node)
    const isThere = presence === undefined || presence === 'present' || presence === 'deleted'
    return this.#count(this.#since, node, !isThere)
  }

  /** @returns undefined if the agent is ready or has reported, or the node has none */
  unreportedForMs(node: NodeName): number | undefined {
    const { unreported } = this.#options.state.reportIndex
    return this.#count(this.#unreportedSince, node, unreported.has(node))
  }

  #count(times: Map<NodeName, number>, node: NodeName, isSilent: boolean): number | undefined {
    if (!isSilent) {
      times.delete(node)
      return undefined
    }
    const now = this.#options.clock.monotonicMs()
    const since = times.get(node) ?? now
    times.set(node, since)
    return now - since
  }
}
