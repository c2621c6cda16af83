export type PluginLevel = 'instance' | 'configuration'

/** What can fail on a node beside single devices, by the reason of its Event. */
export const NODE_PROBLEMS = {
  DiskFull: 'a disk of the node is full',
  StateNotWritten: 'the state of the agent was not written',
  RegistrationFailed: 'the kubelet has not registered a device plugin',
  ApiRequestFailed: 'the API server did not do what the agent asked for',
}

export type NodeProblem = keyof typeof NODE_PROBLEMS

/** What an agent reconciles: the devices of Configurations, the claims of its node, and reports. */
export const RECONCILED_KINDS = ['Configuration', 'Claims', 'BrokerInfo'] as const

export type ReconciledKind = (typeof RECONCILED_KINDS)[number]

/** Counts events of the agent, for its metrics. This one counts nothing. */
export const noopObserver = {
  /** @param _seconds from the start of the discovery to its first list; later undefined */
  handlerAnswered(_configuration: string, _handler: string, _seconds: number | undefined) {},
  handlerFailed(_handler: string) {},
  allocated(_level: PluginLevel, _result: 'granted' | 'refused') {},
  claimed(_level: PluginLevel, _outcome: 'claimed' | 'taken' | 'gone') {},
  reclaimed() {},
  /**
   * A lost claim of a running container was written again, has a conflict, or belongs to an unknown
   * slot.
   */
  restored(_outcome: 'restored' | 'taken' | 'unknown') {},
  /** The result of a registration with the kubelet. */
  registered(_result: 'accepted' | 'failed') {},
  /**
   * The node has a problem. Its log line is written by the caller.
   * @param _otherwise the problem, unless the error shows that a disk is full
   */
  failed(_otherwise: NodeProblem, _error: unknown) {},
  /** Does the work of one reconcile, and measures it. */
  reconciling: <T>(_kind: ReconciledKind, work: () => Promise<T>): Promise<T> => work(),
}

export type AgentObserver = typeof noopObserver
