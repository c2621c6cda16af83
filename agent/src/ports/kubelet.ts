/** The kubelet as the agent's core sees it. */
export interface Kubelet {
  /** Where plugins put their sockets. */
  readonly pluginDirectory: string
  /**
   * Registers a plugin that already serves on `<pluginDirectory>/<socketName>`.
   * @throws KubeletUnavailableError (transient) where the kubelet cannot be reached or refuses.
   */
  register(plugin: PluginRegistration, signal: AbortSignal): Promise<void>
  /**
   * The device ids that containers of this node hold, by resource name; read from podresources.
   * @throws KubeletUnavailableError (transient)
   */
  listAllocated(signal: AbortSignal): Promise<ReadonlyMap<string, ReadonlySet<string>>>
  /** Calls back when the kubelet came back and has forgotten every registration. */
  onRestart(listener: () => void, signal: AbortSignal): void
  /** Calls back when a Pod of this node is seen to be gone, so that its slots may be free. */
  onPodGone(listener: () => void, signal: AbortSignal): void
}

export interface PluginRegistration {
  readonly resourceName: string
  readonly socketName: string
  readonly preferredAllocation: boolean
}
