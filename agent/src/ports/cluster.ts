import type { Configuration, Instance, InstanceName, NodeStatus, SlotName } from '@akrijs/api'
import type { NodeName, ObjectEvent, ObjectKey } from '@akrijs/kube/objects'
import type { DiscoveryProperties } from '@akrijs/runtime/handler'

/**
 * The cluster as the agent's core sees it: custom resources, with the conflict rules of an API server. Every write says
 * what it found; a lost race is an answer, not an error. A rejected promise means that the cluster could not be asked:
 * nothing is known then, and the caller tries again later.
 */
export interface Cluster {
  readonly configurations: ObjectCache<Configuration>
  readonly instances: ObjectCache<Instance>

  /** A Configuration as it stands now, which may be later than what was heard of it; undefined where there is none. */
  readConfiguration(key: ObjectKey): Promise<Configuration | undefined>

  /** Makes an Instance as given. Slots of its capacity that `deviceUsage` leaves out are free. */
  createInstance(instance: InstanceDraft): Promise<'created' | 'exists'>
  /**
   * Adds the node to `spec.nodes`.
   * @param claims what containers of the node have; of these the slots that are free are claimed with it, as by `restoreSlot`
   */
  joinInstance(
    key: ObjectKey,
    node: NodeName,
    claims?: DeviceUsage,
  ): Promise<'joined' | 'already-joined' | 'gone'>
  /**
   * Takes the node out of `spec.nodes` and frees what it holds; the last node to leave deletes the Instance, unless
   * another joins at that moment.
   */
  leaveInstance(key: ObjectKey, node: NodeName): Promise<'left' | 'deleted' | 'gone'>
  /** Writes the fields that the Configuration and the device decide. Slots are added or taken away to fit `capacity`. */
  updateInstance(key: ObjectKey, fields: InstanceChange): Promise<'updated' | 'gone'>

  /** Compare-and-swap on the one slot: `usage` is written only if the slot is free. */
  claimSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim>
  /**
   * As `claimSlot`, for a container that has the slot already: the Instance says so also where the slot is beyond the capacity, or as
   * many as that are held.
   */
  restoreSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim>
  /** Compare-and-swap on the one slot: it is freed only if it still holds `usage`. */
  releaseSlot(
    key: ObjectKey,
    slot: SlotName,
    usage: string,
  ): Promise<'released' | 'changed' | 'gone'>

  /**
   * The properties of a Configuration with their Secrets and ConfigMaps.
   * @throws MissingPropertyError naming what is missing.
   */
  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties>
  /** Calls back when `resolveProperties` may give another answer for that Configuration. */
  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void

  /**
   * Makes `status.brokerInfo` of an Instance say what the workloads of this node have reported. Entries of workloads of other
   * nodes stay. What is the same is not written; `generation` stays.
   * @throws OutdatedResourceError where the cluster has no place for it
   */
  reportBrokerInfo(
    key: ObjectKey,
    node: NodeName,
    reports: BrokerReports,
  ): Promise<'reported' | 'gone'>

  /** Says how a Configuration stands on this node. To be called whenever it may have changed: what is the same is not written. */
  reportStatus(configuration: ObjectKey, node: NodeName, status: NodeStatus): Promise<void>
  /** Something worth telling the operator about an object. Never fails; repeated ones are folded. */
  recordEvent(event: ObjectEvent): void
}

/** By slot what an Instance says of who has it. */
export type DeviceUsage = Instance['spec']['deviceUsage']

/** `taken`: another usage stands there. `gone`: no such Instance or slot, or as many as the capacity are held already. */
export type SlotClaim =
  | { readonly outcome: 'claimed' }
  | { readonly outcome: 'taken'; readonly by: string }
  | { readonly outcome: 'gone' }

/** What the workloads of one node have to say about the device of an Instance. */
export interface BrokerReports {
  /** By the slot that the workload holds. A slot of this node that is not named has nothing to say. */
  readonly workloads: ReadonlyMap<SlotName, BrokerReport>
  /** Slots that were freed: what stands there of them goes, unless somebody holds them again. */
  readonly abandoned: ReadonlySet<SlotName>
}

export interface BrokerReport {
  /** By name the content. */
  readonly files: ReadonlyMap<string, string>
  /** Names of files that have been written since they were last reported: they count before those of other workloads. */
  readonly fresh: ReadonlySet<string>
}

/** What the creator of an Instance decides; the cluster fills in the rest of the metadata. */
export interface InstanceDraft {
  readonly name: InstanceName
  readonly namespace: string
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: Configuration
  readonly spec: Instance['spec']
}

/** The current objects of one kind, kept up to date. */
export interface ObjectCache<T> {
  /** Resolves once everything that exists has been seen: before that, absence means nothing. */
  readonly synced: Promise<void>
  get(key: ObjectKey): T | undefined
  list(): readonly T[]
  /** Calls back after an object came, changed or went. Look it up: the call says only which. */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void
}

/** What is written of an Instance that is there. */
export interface InstanceChange extends Pick<Instance['spec'], 'capacity'> {
  /** @default as they are */
  readonly brokerProperties?: Instance['spec']['brokerProperties']
}
