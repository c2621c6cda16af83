import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'

/** The kubelet as the agent's core sees it. */
export interface Kubelet {
  /** Where plugins put their sockets. */
  readonly pluginDirectory: string
  /** The Pods of this node, from whoever watches them; undefined where nobody does. */
  readonly pods: NodePods | undefined
  /**
   * Registers a plugin that already serves on `<pluginDirectory>/<socketName>`.
   * @throws KubeletUnavailableError (transient) where the kubelet cannot be reached or refuses.
   */
  register(plugin: PluginRegistration, signal: AbortSignal): Promise<void>
  /**
   * The device ids that containers of this node hold; read from podresources.
   * @throws KubeletUnavailableError (transient)
   */
  listAllocated(signal: AbortSignal): Promise<Allocations>
  /** Calls back when the kubelet came back and has forgotten every registration. */
  onRestart(listener: () => void, signal: AbortSignal): void
  /** Calls back now and then, while the kubelet is there, with the names of the files in the directory of plugins. */
  onDirectoryRead(listener: (names: ReadonlySet<string>) => void, signal: AbortSignal): void
}

/** By the name of the resource: which Pod holds which ids. */
export type Allocations = ReadonlyMap<string, readonly PodAllocation[]>

export interface PodAllocation {
  readonly pod: ObjectKey
  readonly ids: ReadonlySet<string>
  /** Which slots the ids stand for, where that is known. */
  readonly slots?: ReadonlyMap<string, SlotName>
}

/** What podresources does not tell: Pods whose containers have not been given anything yet, and Pods that have ended. */
export interface NodePods {
  /** Whether all Pods have been seen: before that, absence means nothing. */
  readonly synced: boolean
  /** By how much it may know less than the kubelet does, in milliseconds. */
  readonly lagMs: number
  /** The Pods that ask for the resource and have containers, or may yet get some; and how many of its ids these may have. */
  users(resourceName: string): ReadonlyMap<ObjectKey, number>
  /** Whether all containers of the Pod have ended for good, although the kubelet may still list it. */
  hasEnded(pod: ObjectKey): boolean
  /** Calls back when a Pod has ended or is gone. */
  onGone(listener: () => void, signal: AbortSignal): void
}

export interface PluginRegistration {
  readonly resourceName: string
  readonly socketName: string
  readonly preferredAllocation: boolean
}
