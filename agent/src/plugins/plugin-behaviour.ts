import type { NodeName } from '@akrijs/kube/objects'
import type { PluginLevel } from '../report/observer.js'
import type { PreferenceRequest } from '../slots/offer.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { SlotClaims } from '../slots/slot-claims.js'
import type { ContainerAllocation, WorkloadDirectoryMaker } from './allocation.js'

/** A device id that the kubelet can give to containers. */
export interface AdvertisedDevice {
  readonly id: string
  readonly healthy: boolean
}

/**
 * The difference between the plugins of Instances and of Configurations. The device-plugin server
 * does the rest.
 */
export interface PluginBehaviour {
  readonly level: PluginLevel
  /** `akri.sh/…` */
  readonly resourceName: string
  /** All ids, in a stable order. */
  advertise(): readonly AdvertisedDevice[]
  /**
   * @param requests the ids for each container
   * @throws AllocationRefusedError. Then no slot is claimed.
   */
  allocate(requests: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]>
  /** The ids that the kubelet should choose for each container. */
  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[]
}

/** The options of a plugin of either level. */
export interface PluginOptions {
  readonly book: SlotBook
  readonly claims: Pick<SlotClaims, 'forRequest'>
  readonly node: NodeName
  /** @default workloads get no directory */
  readonly directories?: Pick<WorkloadDirectoryMaker, 'open'> | undefined
}
