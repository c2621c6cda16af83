import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'

/** The kubelet, as the agent's core uses it. */
export interface Kubelet {
  /** The directory of the plugins' sockets. */
  readonly pluginDirectory: string
  /** The Pods of this node; undefined if Pods are not watched. */
  readonly pods: NodePods | undefined
  /**
   * Registers a plugin that already serves on this socket of `pluginDirectory`.
   * @throws PluginRefusedError (transient) with the answer of a kubelet that refuses
   * @throws KubeletUnavailableError (transient) if the kubelet cannot be reached
   */
  register(resourceName: string, socketName: string, signal: AbortSignal): Promise<void>
  /**
   * The device ids that containers of this node hold.
   * @throws KubeletUnavailableError (transient)
   */
  listAllocated(signal: AbortSignal): Promise<Allocations>
  /** Calls back after a restart of the kubelet: all registrations are lost. */
  onRestart(listener: () => void, signal: AbortSignal): void
  /** Calls back with the names in the plugin directory, again and again while the kubelet is up. */
  onDirectoryRead(listener: (names: ReadonlySet<string>) => void, signal: AbortSignal): void
}

/** The allocations of Pods, by resource name. */
export type Allocations = ReadonlyMap<string, readonly PodAllocation[]>

export interface PodAllocation {
  readonly pod: ObjectKey
  readonly ids: ReadonlySet<string>
  /** The slots of the ids, if the container's annotations tell them. */
  readonly slots?: ReadonlyMap<string, SlotName>
}

/** What the kubelet's list lacks: Pods without an allocation so far, and Pods that have ended. */
export interface NodePods {
  /** Whether all Pods have been seen. Before that, the absence of a Pod means nothing. */
  readonly synced: boolean
  /** How far the watch of Pods may be behind the kubelet, in milliseconds. */
  readonly lagMs: number
  /** The Pods that request the resource and may have containers, with their largest request. */
  users(resourceName: string): ReadonlyMap<ObjectKey, number>
  /** Whether all containers of the Pod have ended for good. The kubelet may still list the Pod. */
  hasEnded(pod: ObjectKey): boolean
  /** The uid of the Pod; undefined if the Pod has not been seen. */
  uidOf(pod: ObjectKey): string | undefined
  /** When the kubelet took the Pod, as ISO 8601; undefined if that is not known. */
  startedAt(pod: ObjectKey): string | undefined
  /** Calls back after the containers of a Pod have started, and after its end or deletion. */
  onChange(listener: (change: 'started' | 'gone') => void, signal: AbortSignal): void
}
