export type PluginLevel = 'instance' | 'configuration'

/** What can fail on a node beside single devices. The name is also the reason of an Event. */
export const NODE_PROBLEMS = [
  'DiskFull',
  'StateNotWritten',
  'RegistrationFailed',
  'ApiRequestFailed',
] as const

export type NodeProblem = (typeof NODE_PROBLEMS)[number]

/** What an agent reconciles: the devices of Configurations, the claims of its node, and reports. */
export const RECONCILED_KINDS = ['Configuration', 'Claims', 'BrokerInfo'] as const

export type ReconciledKind = (typeof RECONCILED_KINDS)[number]

/** Counts events of the agent, for its metrics. */
export interface AgentObserver {
  /** @param seconds from the start of the discovery to its first list; undefined for later lists */
  handlerAnswered(configuration: string, handler: string, seconds: number | undefined): void
  handlerFailed(handler: string): void
  allocated(level: PluginLevel, result: 'granted' | 'refused'): void
  claimed(level: PluginLevel, outcome: 'claimed' | 'taken' | 'gone'): void
  reclaimed(): void
  /**
   * A lost claim of a running container was written again, has a conflict, or belongs to an unknown
   * slot.
   */
  restored(outcome: 'restored' | 'taken' | 'unknown'): void
  /** The result of a registration with the kubelet. */
  registered(result: 'accepted' | 'failed'): void
  /**
   * The node has a problem. Its log line is written by the caller.
   * @param otherwise the problem, unless the error shows that a disk is full
   */
  failed(otherwise: NodeProblem, error: unknown): void
  /** Does the work of one reconcile, and measures it. */
  reconciling<T>(kind: ReconciledKind, work: () => Promise<T>): Promise<T>
}

export const noopObserver: AgentObserver = {
  handlerAnswered: () => {},
  handlerFailed: () => {},
  allocated: () => {},
  claimed: () => {},
  reclaimed: () => {},
  restored: () => {},
  registered: () => {},
  failed: () => {},
  reconciling: (_kind, work) => work(),
}
