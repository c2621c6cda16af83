import type { NodeName, ObjectKey, ObjectMeta } from '@akrijs/kube/objects'
import type { API_VERSION, ConfigurationName, InstanceName, SlotName } from './names.js'

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
  /** The resources that nodes offer. @default both */
  readonly offer?: Offer
  readonly brokerSpec?: BrokerSpec
  readonly instanceServiceSpec?: Readonly<Record<string, unknown>>
  readonly configurationServiceSpec?: Readonly<Record<string, unknown>>
  /**
   * Environment variables of all brokers. They override properties of a device with the same name.
   * @default {}
   */
  readonly brokerProperties: Readonly<Record<string, string>>
}

/**
 * `configuration`: one resource for all devices. `instance`: a resource for each device. `both`:
 * all of these.
 */
export type Offer = 'both' | 'configuration' | 'instance'

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
  readonly updateStrategy?: {
    readonly type: UpdateStrategy
    /** For `brokerPodSpec` with `RollingUpdate`. */
    readonly rollingUpdate?: RollingUpdate
  }
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

export interface RollingUpdate {
  /**
   * How many broker Pods of the Configuration a change may make unavailable at once: a number, or a
   * percentage such as `25%`, rounded down; at least 1. @default 10%
   */
  readonly maxUnavailable?: number | string
}

/** `True`: as the spec says. `False`: not so, and `message` says why. `Unknown`: not known yet. */
type ConditionStatus = 'True' | 'False' | 'Unknown'

/** A condition that agents report. */
export type NodeConditionType = 'HandlerConnected' | 'Discovering' | 'Ready'

export interface Condition {
  /**
   * The controller alone writes `HandlersReady`; `BrokersReady`, of Configurations with brokers;
   * and `PropertiesResolved`, of Configurations that use Secrets or ConfigMaps.
   */
  readonly type: NodeConditionType | 'HandlersReady' | 'BrokersReady' | 'PropertiesResolved'
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
  readonly slots: SlotCounts
  /** The controller writes this field. @default unknown: no controller of this version has run */
  readonly nodeCounts?: NodeCounts
  /** The controller writes this field. @default the Configuration has no brokers */
  readonly brokers?: BrokerCounts
  /**
   * The status on the first few nodes with a problem, and on nodes whose agents write no
   * NodeReport.
   */
  readonly nodes: Readonly<Record<string, NodeStatus>>
}

export interface SlotCounts {
  readonly total: number
  readonly claimed: number
  /** The others, as a number that a column can show. @default unknown */
  readonly free?: number
}

export interface NodeCounts {
  /** Nodes whose agent is there and has reported the status of the Configuration. */
  readonly reporting: number
  /** Nodes among these whose condition `Ready` is `True`. */
  readonly ready: number
  /** Nodes with a report whose agent is not there. */
  readonly silent: number
}

/** Broker Pods or Jobs, or the Pods of the Deployment. */
export interface BrokerCounts {
  readonly desired: number
  /** Those that are made from the present spec. */
  readonly updated: number
  readonly ready: number
}

/** The status of a Configuration on one node. */
export interface NodeStatus {
  readonly observedGeneration: number
  readonly devices: number
  /** How many devices a bound of the node leaves out. @default 0 */
  readonly leftOut?: number
  readonly conditions: readonly Omit<Condition, 'lastTransitionTime'>[]
}

/**
 * What the agent of a node reports, by the keys of Configurations and Instances. It has the name of
 * the node, and only the agent of that node writes it.
 */
export interface NodeReport {
  readonly apiVersion: typeof API_VERSION
  readonly kind: 'NodeReport'
  readonly metadata: ObjectMeta<NodeName>
  /** The name of the agent's Pod. @default the agent does not run in a Pod */
  readonly agentPod?: string
  /** The namespace of that Pod. @default that of the controller */
  readonly agentNamespace?: string
  readonly counts: ReportCounts
  readonly configurations: Readonly<Record<ObjectKey, ReportedStatus>>
  /** Shared Instances that the node wants to join or leave. */
  readonly memberships: Readonly<Record<ObjectKey, Membership>>
  /** Pods of the node that fill its disk. @default none */
  readonly podsToEnd?: Readonly<Record<ObjectKey, PodToEnd>>
}

/** A Pod whose container keeps more on the disk of its node than it may. */
export interface PodToEnd {
  readonly uid: string
  /** The slot of the container. */
  readonly slot: string
}

/** A slot that a container of a node uses. */
export interface UsedSlot {
  readonly slot: SlotName
  /** `namespace/name` */
  readonly pod: string
  /** When the kubelet took the Pod, as ISO 8601. @default unknown */
  readonly since?: string
}

/** Numbers for people. */
export interface ReportCounts {
  /** Configurations that the agent has a status of. */
  readonly configurations: number
  /** Configurations among these whose condition `Ready` is `True`. */
  readonly ready: number
  readonly devices: number
  /** Configurations whose status has no room in the report. @default 0 */
  readonly leftOut?: number
}

export interface ReportedStatus extends NodeStatus {
  /** The uid of the Configuration. */
  readonly uid: string
  /** @default none */
  readonly deviceProblems?: readonly DeviceProblem[]
}

/**
 * What an agent finds out about a device. `HandlerLost`: no handler vouches for it.
 * `DeviceRefused`: its handler may not give it to containers. In both cases no Pod gets it on that
 * node. `DeviceLost`: the node no longer sees it, and Pods there have it.
 */
export type FoundProblem = 'HandlerLost' | 'DeviceRefused' | 'DeviceLost'

/** Instances whose devices have the same problem. */
export interface DeviceProblem {
  /** A few words, such as `credential refused`. */
  readonly reason: string
  /** @default the handler reports the problem */
  readonly found?: FoundProblem
  readonly instances: readonly InstanceName[]
}

/** What a node wants of one Instance: an Instance that is created later has another uid. */
export interface Membership {
  /** The uid of the Instance. */
  readonly uid: string
  readonly wish: 'join' | 'leave'
}

/**
 * The condition `DeviceProblem`, or a condition of another program. `True`: the device has a
 * problem, and `message` has it. `False`: the problem is over. The condition is absent if there was
 * none.
 */
export interface InstanceCondition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** A word in CamelCase. */
  readonly reason: string
  readonly message: string
  readonly lastTransitionTime: string
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
  /** The controller writes this field. @default [] */
  readonly conditions?: readonly InstanceCondition[]
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
