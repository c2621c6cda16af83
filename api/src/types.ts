import type { NodeName, ObjectMeta } from '@akrijs/kube/objects'
import type { API_VERSION, ConfigurationName, InstanceName } from './names.js'

/** The devices to discover, the slots of each device, and the brokers of the devices. */
export interface Configuration {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'Configuration'
  readonly metadata: ObjectMeta<ConfigurationName>
  readonly spec: ConfigurationSpec
  readonly status?: ConfigurationStatus
}

export interface ConfigurationSpec {
  readonly discoveryHandler: DiscoveryHandlerInfo
  /** How many containers may use a device at once: an integer >= 1. @default 1 */
  readonly capacity: number
  readonly brokerSpec?: BrokerSpec
  readonly instanceServiceSpec?: Readonly<Record<string, unknown>>
  readonly configurationServiceSpec?: Readonly<Record<string, unknown>>
  /**
   * Environment variables of all brokers. They override properties of a device with the same name.
   * @default {}
   */
  readonly brokerProperties: Readonly<Record<string, string>>
}

interface DiscoveryHandlerInfo {
  readonly name: string
  /**
   * What the handler looks for, in a form that the handler defines; YAML by convention.
   * @default ""
   */
  readonly discoveryDetails: string
  readonly discoveryProperties: readonly DiscoveryProperty[]
}

type DiscoveryProperty =
  | { readonly name: string; readonly value?: string }
  | {
      readonly name: string
      readonly valueFrom:
        | { readonly secretKeyRef: KeySelector }
        | { readonly configMapKeyRef: KeySelector }
    }

export interface KeySelector {
  readonly name: string
  readonly key: string
  /**
   * In another namespace, the object must consent by its annotation `akri.sh/readable-from`.
   * @default the namespace of the Configuration
   */
  readonly namespace?: string
  /**
   * Whether a missing object or key omits the property. Otherwise the property is an error.
   * @default false
   */
  readonly optional?: boolean
}

export type BrokerSpec = BrokerTemplate & {
  /** How a change of the spec reaches Pods and Jobs. @default RollingUpdate */
  readonly updateStrategy?: { readonly type: UpdateStrategy }
}

type BrokerTemplate =
  /** A PodSpec: a Pod for each node of an Instance, at most as many as the capacity. */
  | { readonly brokerPodSpec: Readonly<Record<string, unknown>> }
  /** A JobSpec: a Job for each Instance. */
  | { readonly brokerJobSpec: Readonly<Record<string, unknown>> }
  /**
   * A DeploymentSpec: a Deployment for the Configuration, whose Pods ask for the resource of the
   * Configuration.
   */
  | { readonly brokerDeploymentSpec: Readonly<Record<string, unknown>> }

/**
 * `RollingUpdate`: objects are recreated one after the other. `OnDelete`: an object is recreated
 * after its deletion.
 */
export type UpdateStrategy = 'RollingUpdate' | 'OnDelete'

/** `True`: as the spec says. `False`: not so, and `message` says why. `Unknown`: not known yet. */
type ConditionStatus = 'True' | 'False' | 'Unknown'

export interface Condition {
  readonly type: 'HandlerConnected' | 'Discovering' | 'Ready'
  readonly status: ConditionStatus
  /** A word in CamelCase. */
  readonly reason: string
  readonly message: string
  readonly lastTransitionTime: string
}

export interface ConfigurationStatus {
  readonly observedGeneration: number
  /** The conditions in the whole cluster. */
  readonly conditions: readonly Condition[]
  /** The number of devices that are present. */
  readonly devices: number
  readonly slots: { readonly total: number; readonly claimed: number }
  /** The status on each node. */
  readonly nodes: Readonly<Record<string, NodeStatus>>
}

/** The status of a Configuration on one node. */
export interface NodeStatus {
  readonly observedGeneration: number
  readonly devices: number
  /** How many devices a bound of the node leaves out. @default 0 */
  readonly leftOut?: number
  readonly conditions: readonly Omit<Condition, 'lastTransitionTime'>[]
}

/** A device, shared by all nodes that see it. Only agents write the spec. */
export interface Instance {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'Instance'
  readonly metadata: ObjectMeta<InstanceName>
  readonly spec: InstanceSpec
  readonly status?: InstanceStatus
}

export interface InstanceStatus {
  /** The newest broker Job. The controller writes this field. */
  readonly brokerJob?: { readonly name: string; readonly specHash: string }
  /**
   * The reports of workloads that use the device: contents by file name. Agents write this field.
   */
  readonly brokerInfo?: Readonly<Record<string, string>>
  /**
   * The slot of the workload that wrote an entry of `brokerInfo`, by the name of the entry. Agents
   * write this field.
   */
  readonly brokerInfoSlots?: Readonly<Record<string, string>>
}

export interface InstanceSpec {
  readonly configurationName: ConfigurationName
  /** `akri.sh/<configuration>=<digest>` */
  readonly cdiName: string
  readonly capacity: number
  /** The properties of the device, overridden by the properties of the Configuration. */
  readonly brokerProperties: Readonly<Record<string, string>>
  readonly shared: boolean
  readonly nodes: readonly NodeName[]
  /**
   * The claims of slots. A slot that is absent or "" is free. SlotUsage explains the other values.
   */
  readonly deviceUsage: Readonly<Record<string, string>>
}
