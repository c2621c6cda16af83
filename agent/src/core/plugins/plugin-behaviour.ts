import type { PluginLevel } from '../../ports/observer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { ContainerAllocation } from './allocation.js'

/** A device as the kubelet gets it. */
export interface AdvertisedDevice {
  readonly id: string
  readonly healthy: boolean
}

/** What makes the plugin of an Instance differ from that of a Configuration; the rest is {@link DevicePluginServer}'s. */
export interface PluginBehaviour {
  readonly level: PluginLevel
  /** `akri.sh/…` */
  readonly resourceName: string
  /** All ids, in a stable order. */
  advertise(): readonly AdvertisedDevice[]
  /**
   * @param requests the ids for each container
   * @param claims what it claims for them
   * @throws AllocationRefusedError, and nothing has been claimed
   */
  allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]>
  /** Which ids the kubelet should better take. @default the kubelet chooses */
  prefer?(requests: readonly PreferenceRequest[]): readonly (readonly string[])[]
}

export interface PreferenceRequest {
  readonly available: readonly string[]
  readonly mustInclude: readonly string[]
  readonly size: number
}
