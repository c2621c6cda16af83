import type {
  Configuration,
  DeviceProblem,
  Instance,
  InstanceName,
  NodeStatus,
  PodToEnd,
  SlotName,
  UsedSlot,
} from '@akrijs/api'
import type { NodeName, ObjectEvent, ObjectKey } from '@akrijs/kube/objects'
import type { DiscoveryProperties } from '@akrijs/sdk/handler'

/**
 * The cluster, as the agent's core uses it: custom resources, with the conflict rules of an API
 * server. Every write tests the state that it expects; a lost race is an answer, not an error. A
 * rejected promise means that the cluster did not answer: the state is unknown, and the caller
 * tries again later.
 */
export interface Cluster {
  readonly configurations: ObjectCache<Configuration>
  readonly instances: ObjectCache<Instance>
  /** How many nodes the cluster has at least: 1 if no other node is known. */
  readonly knownNodes: number

  /** The present Configuration, which may be newer than the cache. */
  readConfiguration(key: ObjectKey): Promise<Configuration | undefined>

  /** Creates an Instance. Slots of its capacity that `deviceUsage` leaves out are free. */
  createInstance(instance: InstanceDraft): Promise<'created' | 'exists'>
  /**
   * Adds the node to `spec.nodes`.
   * @param claims of the node's containers: the join also claims those of these slots that are free
   * @returns `asked`: the node joins in a moment with others; call again after some seconds
   */
  joinInstance(
    key: ObjectKey,
    node: NodeName,
    claims?: DeviceUsage,
  ): Promise<'joined' | 'already-joined' | 'asked' | 'gone'>
  /**
   * Removes the node from `spec.nodes` and releases its slots. The last node deletes the Instance,
   * unless another node joins at that moment.
   * @returns `asked` as `joinInstance`
   */
  leaveInstance(key: ObjectKey, node: NodeName): Promise<'left' | 'deleted' | 'asked' | 'gone'>
  /** Takes back a leave that this node has asked for, and that has not come true. */
  stayInInstance(key: ObjectKey): void
  /**
   * Writes the fields that the Configuration and the device decide. Adds or removes slots to fit
   * `capacity`.
   * @returns `deferred`: the lower capacity waits for slots to be released
   */
  updateInstance(key: ObjectKey, fields: InstanceChange): Promise<'updated' | 'deferred' | 'gone'>

  /**
   * Compare-and-swap of one slot: writes `usage` only if the slot is free.
   * @param device the id of the device: an Instance of another device has no such slot
   */
  claimSlot(key: ObjectKey, slot: SlotName, usage: string, device?: string): Promise<SlotClaim>
  /**
   * As `claimSlot`, for a container that uses the slot already: also writes a claim beyond the
   * capacity, and a claim in an Instance that is full.
   */
  restoreSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim>
  /** Compare-and-swap of one slot: frees the slot only if it still holds `usage`. */
  releaseSlot(
    key: ObjectKey,
    slot: SlotName,
    usage: string,
  ): Promise<'released' | 'changed' | 'gone'>

  /**
   * The properties of a Configuration with their Secrets and ConfigMaps.
   * @throws MissingPropertyError with the name of the missing object or key.
   * @throws PropertyForbiddenError, PropertyUnreadableError if an object cannot be read
   * @throws PropertyRefusedError if an object of another namespace does not consent.
   */
  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties>
  /** Calls back when the result of `resolveProperties` may have changed for that Configuration. */
  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void

  /**
   * Writes the reports of this node's workloads to `status.brokerInfo` of the Instance, if they
   * changed. Entries of other nodes' workloads stay, and so does `generation`.
   * @throws OutdatedResourceError if the installed custom resource has no such field
   */
  reportBrokerInfo(
    key: ObjectKey,
    node: NodeName,
    reports: BrokerReports,
  ): Promise<'reported' | 'gone'>

  /**
   * Reports the state of a Configuration on this node. An unchanged state is not written.
   * @param problems of devices: they become conditions of their Instances.
   * @default those of before that a handler reported: this agent does not know them yet
   */
  reportStatus(
    configuration: ObjectKey,
    node: NodeName,
    status: NodeStatus,
    problems?: readonly DeviceProblem[],
  ): Promise<void>
  /** Shows the slots that containers of this node use: all of them, for people. */
  reportSlots(slots: SlotsInUse): void
  /** Asks for the end of these Pods of this node, and no others: their containers fill its disk. */
  reportPodsToEnd(pods: ReadonlyMap<ObjectKey, PodToEnd>): void
  /** Records an Event for the operator. Never fails. Repeated Events raise a count. */
  recordEvent(event: ObjectEvent): void
}

/** By the key of the Instance. */
export type SlotsInUse = ReadonlyMap<ObjectKey, readonly UsedSlot[]>

/** The claims of an Instance, by slot. A free slot has an empty claim. */
export type DeviceUsage = Instance['spec']['deviceUsage']

/**
 * `taken`: the slot has another claim. `gone`: the Instance or the slot does not exist, or the
 * Instance is full.
 */
export type SlotClaim =
  | { readonly outcome: 'claimed' }
  | { readonly outcome: 'taken'; readonly by: string }
  | { readonly outcome: 'gone' }

/** The reports of one node's workloads about the device of an Instance. */
export interface BrokerReports {
  /** By the slot of the workload. A slot of this node that is not here has no report. */
  readonly workloads: ReadonlyMap<SlotName, BrokerReport>
  /** Released slots: their reports are removed, unless the slots are claimed again. */
  readonly abandoned: ReadonlySet<SlotName>
}

export interface BrokerReport {
  /** The contents by name. */
  readonly files: ReadonlyMap<string, string>
  /** Files that were written since the last report: they win over files of other workloads. */
  readonly fresh: ReadonlySet<string>
}

/** The fields that the creator of an Instance decides. The cluster adds the other metadata. */
export interface InstanceDraft {
  readonly name: InstanceName
  readonly namespace: string
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: Configuration
  readonly spec: Instance['spec']
}

/** The present objects of one kind. */
export interface ObjectCache<T> {
  /** Resolves when all objects have been seen: before, the absence of an object means nothing. */
  readonly synced: Promise<void>
  get(key: ObjectKey): T | undefined
  list(): readonly T[]
  /** Calls back after an object was added, changed or removed. */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void
}

/** The fields to write to an existing Instance. */
export interface InstanceChange extends Pick<Instance['spec'], 'capacity'> {
  /** @default unchanged */
  readonly brokerProperties?: Instance['spec']['brokerProperties']
}
