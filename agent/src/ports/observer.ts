export type PluginLevel = 'instance' | 'configuration'

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
}

export const noopObserver: AgentObserver = {
  handlerAnswered: () => {},
  handlerFailed: () => {},
  allocated: () => {},
  claimed: () => {},
  reclaimed: () => {},
  restored: () => {},
  registered: () => {},
}
