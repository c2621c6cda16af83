import type { ConfigurationName, InstanceName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/runtime/handler'

/** An Instance that this node serves: all that its device plugin needs besides the slots. */
export interface ServedInstance {
  readonly key: ObjectKey
  readonly name: InstanceName
  readonly configuration: ConfigurationName
  /** The six hexadecimal digits after the Configuration's name. */
  readonly digest: string
  readonly device: Device
  /** The environment of containers: the device's properties, overlaid by the Configuration's. */
  readonly properties: Readonly<Record<string, string>>
  /** An unhealthy device is advertised, but not allocated. */
  readonly healthy: boolean
  readonly capacity: number
}

/** A Configuration whose devices this node discovers. */
export interface ServedConfiguration {
  readonly key: ObjectKey
  readonly name: ConfigurationName
}

/** The device plugins of this node, for the reconciler of Instances. All calls are level-based. */
export interface InstancePlugins {
  /**
   * Serves the resource of a Configuration, with or without devices. Resolves as {@link
   * InstancePlugins.serve} does.
   */
  serveConfiguration(configuration: ServedConfiguration): Promise<void>
  withdrawConfiguration(configuration: ObjectKey): Promise<void>
  /**
   * Serves the Instance, or updates its plugin. Resolves after the first registration with the
   * kubelet. If that fails, the plugin tries again later.
   */
  serve(instance: ServedInstance): Promise<void>
  /** Stops the plugin of an Instance that this node no longer serves. */
  withdraw(name: InstanceName): Promise<void>
}
