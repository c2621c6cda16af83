import type { ConfigurationName, InstanceName, SlotName, SlotUsage } from '@akrijs/api'
import type { ServedInstance } from '../instances/served-instance.js'

/** A resource `akri.sh/…` of this node: one Instance, or any Instance of a Configuration. */
export type Resource = { readonly name: string } & (
  | { readonly level: 'instance'; readonly owner: InstanceName }
  | { readonly level: 'configuration'; readonly owner: ConfigurationName }
)

/** A device id that the kubelet can give to containers. */
export interface AdvertisedDevice {
  readonly id: string
  readonly healthy: boolean
}

/** The kubelet asks which ids of a resource it should give to a container. */
export interface PreferenceRequest {
  readonly available: readonly string[]
  readonly mustInclude: readonly string[]
  readonly size: number
}

/** The slot that an id of a request stands for. */
export interface ChosenSlot {
  readonly id: string
  readonly slot: SlotName
  readonly instance: ServedInstance
}

/**
 * The slots of an Instance, as this node may offer them. What is offered, preferred and allocated
 * at both levels is computed from this, so Allocate refuses no offered slot.
 */
export interface InstanceSlots {
  readonly served: ServedInstance
  /** Whether the cluster has the Instance: `leaving` while it is being deleted. */
  readonly state: 'there' | 'leaving' | 'absent'
  /** Whether a slot can be allocated: the device is healthy, and the Instance is there. */
  readonly usable: boolean
  /** The slots of the capacity, with what containers of this node have, recorded or not. */
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** The slots that can be claimed now, in the order in which this node claims them. */
  readonly free: readonly SlotName[]
  /** The slots that this node has by the resource of the Instance, in the same order. */
  readonly own: readonly SlotName[]
  /** The slots that this node has by the resource of the Configuration, by their ids. */
  readonly byId: ReadonlyMap<string, SlotName>
}
