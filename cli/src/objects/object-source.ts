import type { Configuration, Instance, NodeReport } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import type { Kind } from './kinds.js'

/** An Event about an object. */
export interface ShownEvent {
  /** Such as `Instance`. */
  readonly kind: string
  readonly key: ObjectKey
  readonly type: string
  readonly reason: string
  readonly message: string
  readonly count: number
  /** As ISO 8601; empty if unknown. */
  readonly lastTimestamp: string
}

/** Who uses a slot. */
export interface SlotUse {
  readonly slot: string
  /** `namespace/name` of a Pod, or the process of a broker of this machine. */
  readonly user: string
  /** When the kubelet took the Pod, as ISO 8601. @default unknown */
  readonly since?: string | undefined
}

/**
 * The objects that `akri get`, `describe`, `slots` and `events` show: those of the agent of this
 * machine, or those of a cluster.
 * @throws NoAgentError, ApiError, ApiUnreachableError of each method
 */
export interface ObjectSource {
  configurations(): Promise<readonly Configuration[]>
  instances(): Promise<readonly Instance[]>
  /** The reports of all nodes, whatever the namespace. */
  nodes(): Promise<readonly NodeReport[]>
  /** Those about objects of akri.js, the oldest first. */
  events(): Promise<readonly ShownEvent[]>
  /** The slots that containers or brokers use, by the key of the Instance. */
  uses(): Promise<ReadonlyMap<ObjectKey, readonly SlotUse[]>>
  /** Resolves once objects of a kind may have changed since they were read last. */
  changed(kind: Kind): Promise<void>
  /** What the broker of an Instance does; undefined where the cluster's Pods say it. */
  broker(instance: Instance): Promise<string | undefined>
}
