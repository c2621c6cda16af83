import type { PluginLevel } from '../../ports/observer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { ContainerAllocation } from './allocation.js'

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
   * @param claims claims the slots of the request
   * @throws AllocationRefusedError. Then no slot is claimed.
   */
  allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]>
  /** The ids that the kubelet should choose for each container. */
  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[]
}

export interface PreferenceRequest {
  readonly available: readonly string[]
  readonly mustInclude: readonly string[]
  readonly size: number
}
