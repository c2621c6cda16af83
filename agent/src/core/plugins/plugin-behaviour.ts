import type { NodeName } from '@akrijs/kube/objects'
import type { Cluster } from '../../ports/cluster.js'
import type { AgentObserver, PluginLevel } from '../../ports/observer.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import type { PreferenceRequest } from '../slots/offer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { SlotTable } from '../slots/slot-table.js'
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

/** The options of a plugin of either level. */
export interface PluginOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>
  readonly node: NodeName
  readonly ledger: AllocationLedger
  readonly observer: AgentObserver
  readonly directories: WorkloadDirectoryMaker | undefined
  slotTable(instance: ServedInstance): SlotTable
}
