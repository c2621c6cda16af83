import type { ConfigurationName, InstanceName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/runtime/handler'

/** An Instance that this node sees and serves: what its device plugin needs beside the Instance's slots. */
export interface ServedInstance {
  readonly key: ObjectKey
  readonly name: InstanceName
  readonly configuration: ConfigurationName
  /** The six hexadecimal digits after the Configuration's name. */
  readonly digest: string
  readonly device: Device
  /** The device's properties overlaid by the Configuration's: the environment of those who use it. */
  readonly properties: Readonly<Record<string, string>>
  /** False: known, but not to be offered. */
  readonly healthy: boolean
  readonly capacity: number
}

/** A Configuration whose devices this node looks for. */
export interface ServedConfiguration {
  readonly key: ObjectKey
  readonly name: ConfigurationName
}

/** The device plugins of this node as the reconciler of Instances drives them. All calls are level-based. */
export interface InstancePlugins {
  /** Offers the resource of a Configuration, with or without devices. Resolves as {@link InstancePlugins.serve} does. */
  serveConfiguration(configuration: ServedConfiguration): Promise<void>
  withdrawConfiguration(configuration: ObjectKey): Promise<void>
  /**
   * Serves the Instance, or takes over what changed of it. Resolves once the kubelet has been told; where the kubelet is
   * away it resolves too, and the registration is retried.
   */
  serve(instance: ServedInstance): Promise<void>
  /** Ends the plugin of an Instance that this node no longer serves. */
  withdraw(name: InstanceName): Promise<void>
}
