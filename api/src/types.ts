import type { NodeName, ObjectMeta } from '@akrijs/kube/objects'
import type { API_VERSION, ConfigurationName, InstanceName } from './names.js'

/** What is to be discovered, how many may use each device at once, and what runs for each. */
export interface Configuration {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'Configuration'
  readonly metadata: ObjectMeta<ConfigurationName>
  readonly spec: ConfigurationSpec
  readonly status?: ConfigurationStatus
}

export interface ConfigurationSpec {
  readonly discoveryHandler: DiscoveryHandlerInfo
  /** How many containers may use one device at once: an integer >= 1. @default 1 */
  readonly capacity: number
  readonly brokerSpec?: BrokerSpec
  readonly instanceServiceSpec?: Readonly<Record<string, unknown>>
  readonly configurationServiceSpec?: Readonly<Record<string, unknown>>
  /** Environment variables of all brokers; they win over a device's properties of the same name. @default {} */
  readonly brokerProperties: Readonly<Record<string, string>>
}

export interface DiscoveryHandlerInfo {
  readonly name: string
  /** What to look for, in the handler's own form; YAML by convention. @default "" */
  readonly discoveryDetails: string
  readonly discoveryProperties: readonly DiscoveryProperty[]
}

export type DiscoveryProperty =
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
  /** @default the Configuration's own namespace */
  readonly namespace?: string
  /** Whether the property is left out, rather than an error, where the object or the key is missing. @default false */
  readonly optional?: boolean
}

export type BrokerSpec = BrokerTemplate & {
  /** How Pods and Jobs get a changed spec. @default RollingUpdate */
  readonly updateStrategy?: { readonly type: UpdateStrategy }
}

export type BrokerTemplate =
  /** A PodSpec: one Pod for each node of an Instance, as many as the capacity at most. */
  | { readonly brokerPodSpec: Readonly<Record<string, unknown>> }
  /** A JobSpec: one Job for each Instance. */
  | { readonly brokerJobSpec: Readonly<Record<string, unknown>> }
  /** A DeploymentSpec: one Deployment for the Configuration, whose Pods ask for its resource. */
  | { readonly brokerDeploymentSpec: Readonly<Record<string, unknown>> }

/** `RollingUpdate`: made anew, one after the other. `OnDelete`: made anew when somebody deletes the old one. */
export type UpdateStrategy = 'RollingUpdate' | 'OnDelete'

/** `True`: as wished. `False`: not, and `message` says why. `Unknown`: not known yet. */
export type ConditionStatus = 'True' | 'False' | 'Unknown'

export interface Condition {
  readonly type: 'HandlerConnected' | 'Discovering' | 'Ready'
  readonly status: ConditionStatus
  /** One word in CamelCase. */
  readonly reason: string
  readonly message: string
  readonly lastTransitionTime: string
}

export interface ConfigurationStatus {
  readonly observedGeneration: number
  /** How it stands in the whole cluster. */
  readonly conditions: readonly Condition[]
  /** Devices that this Configuration has at present. */
  readonly devices: number
  readonly slots: { readonly total: number; readonly claimed: number }
  /** What each node has to say. */
  readonly nodes: Readonly<Record<string, NodeStatus>>
}

/** How a Configuration stands on one node. */
export interface NodeStatus {
  readonly observedGeneration: number
  readonly devices: number
  readonly conditions: readonly Omit<Condition, 'lastTransitionTime'>[]
}

/** One device, shared by all nodes that see it. Written by agents only. */
export interface Instance {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'Instance'
  readonly metadata: ObjectMeta<InstanceName>
  readonly spec: InstanceSpec
  readonly status?: InstanceStatus
}

export interface InstanceStatus {
  /** The broker Job that was made last. Written by the controller. */
  readonly brokerJob?: { readonly name: string; readonly specHash: string }
  /** What the workloads that use the device have reported: by file name the content. Written by agents, as the next one is. */
  readonly brokerInfo?: Readonly<Record<string, string>>
  /** By the name of an entry of `brokerInfo`, the slot of the workload that has written it. */
  readonly brokerInfoSlots?: Readonly<Record<string, string>>
}

export interface InstanceSpec {
  readonly configurationName: ConfigurationName
  /** `akri.sh/<configuration>=<digest>` */
  readonly cdiName: string
  readonly capacity: number
  /** The device's properties overlaid by the Configuration's. */
  readonly brokerProperties: Readonly<Record<string, string>>
  readonly shared: boolean
  readonly nodes: readonly NodeName[]
  /** Who holds which slot. Absent or "" is free; see SlotUsage for the other forms. */
  readonly deviceUsage: Readonly<Record<string, string>>
}
