export type PluginLevel = 'instance' | 'configuration'

/** Who counts what happens. */
export interface AgentObserver {
  /** @param seconds since the handler was asked, with its first list */
  handlerAnswered(configuration: string, handler: string, seconds: number | undefined): void
  handlerFailed(handler: string): void
  allocated(level: PluginLevel, result: 'granted' | 'refused'): void
  claimed(level: PluginLevel, outcome: 'claimed' | 'taken' | 'gone'): void
  reclaimed(): void
  /** Of a claim that a container has and its Instance had lost; `restored` if it was written again. */
  restored(outcome: 'restored' | 'taken' | 'unknown'): void
  /** With the kubelet. */
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
