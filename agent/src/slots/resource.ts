import type { SlotName } from '@akrijs/api'
import type { ServedInstance } from '../instances/served-instance.js'
import type { PluginLevel } from '../report/observer.js'

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
 * A resource that this node offers: one Instance, or any Instance of a Configuration. All answers
 * come from the slot book, so Allocate refuses no offered id.
 */
export interface Resource {
  readonly level: PluginLevel
  /** `akri.sh/…` */
  readonly name: string
  /** All ids, in a stable order. */
  advertise(): readonly AdvertisedDevice[]
  /** The ids that the kubelet should choose for a container. */
  prefer(request: PreferenceRequest): string[]
  /**
   * The slots for the ids of each container.
   * @throws AllocationRefusedError
   */
  choose(requests: readonly (readonly string[])[]): readonly (readonly ChosenSlot[])[]
}
