import type { ConfigurationName, InstanceName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/sdk/handler'

/** An Instance that this node serves: all that its device plugin needs besides the slots. */
export interface ServedInstance {
  readonly key: ObjectKey
  readonly name: InstanceName
  readonly configuration: ConfigurationName
  /** The hexadecimal digits after the Configuration's name. */
  readonly digest: string
  readonly device: Device
  /** The environment of containers: the device's properties, overlaid by the Configuration's. */
  readonly properties: Readonly<Record<string, string>>
  /** An unhealthy device is advertised, but not allocated. */
  readonly healthy: boolean
  readonly capacity: number
}

/** Why the kubelet does not have a resource. */
export interface RegistrationProblem {
  readonly resourceName: string
  /** Whether the kubelet refuses it. Otherwise the kubelet or the socket cannot be used. */
  readonly isRefused: boolean
  readonly message: string
}

/**
 * The device plugins of this node, for the reconciler of Instances. All calls are level-based. A
 * plugin has its resource at once. The promise resolves after the first registration with the
 * kubelet; if that fails, the plugin tries again later.
 */
export interface InstancePlugins {
  /**
   * Serves the resource of a Configuration, with or without devices.
   * @throws ResourceTakenError at once if another object has the resource
   */
  serveConfiguration(configuration: ObjectKey): Promise<void>
  withdrawConfiguration(configuration: ObjectKey): Promise<void>
  /**
   * Serves the Instance, or updates its plugin.
   * @param hasResource whether the Instance has a resource of its own. The resource of its
   * Configuration offers its slots in any case.
   * @throws ResourceTakenError at once if another object has the resource
   */
  serve(instance: ServedInstance, hasResource: boolean): Promise<void>
  /**
   * Stops the plugin of an Instance that this node no longer serves.
   * @param isGone whether its device is gone. The kubelet gets a last list then, in which all slots
   * are unhealthy. The end of a plugin alone, as at a restart of the agent, says nothing about its
   * device.
   */
  withdraw(name: InstanceName, isGone: boolean): Promise<void>
  /** Calls back after the problems of a Configuration with the kubelet have changed. */
  onRegistrationChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void
}
