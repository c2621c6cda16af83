import type { InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../../ports/cluster.js'
import type { NodePods } from '../../ports/kubelet.js'
import type { AllocationLedger } from './allocation-ledger.js'

interface LostDevicesOptions {
  readonly cluster: Pick<Cluster, 'recordEvent'>
  readonly kubelet: { readonly pods: Pick<NodePods, 'uidOf'> | undefined }
  readonly ledger: AllocationLedger
  readonly node: NodeName
  readonly log: Logger
}

/** A device that is gone. */
export interface LostDevice {
  readonly id: string
  readonly instance: InstanceName
}

/**
 * Records an Event for each Pod whose device is gone. The Pods of young allocations are known after
 * the next answer of the kubelet, so devices wait for that.
 */
export class LostDevices {
  readonly #options: LostDevicesOptions
  readonly #waiting = new Map<InstanceName, LostDevice>()

  constructor(options: LostDevicesOptions) {
    this.#options = options
  }

  /** @returns whether containers of this node use the device */
  add(device: LostDevice): boolean {
    if (this.#options.ledger.inUse(device.instance).length === 0) return false
    this.#waiting.set(device.instance, device)
    return true
  }

  /** To be called when the ledger has the Pods that the kubelet lists. */
  report(): void {
    const { log } = this.#options
    for (const device of this.#waiting.values()) {
      const pods = this.#record(device)
      if (pods > 0) log.warn({ ...device, pods }, 'device of running Pods lost')
    }
    this.#waiting.clear()
  }

  /** @returns the number of Pods */
  #record({ id, instance }: LostDevice): number {
    const { cluster, kubelet, ledger, node } = this.#options
    const resources = new Map(
      ledger
        .inUse(instance)
        .flatMap((each) =>
          [...(ledger.usersOf(each) ?? [])].map((pod) => [pod, each.resourceName] as const),
        ),
    )
    for (const [key, resource] of resources)
      cluster.recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Pod', key, uid: kubelet.pods?.uidOf(key) },
        type: 'Warning',
        reason: 'DeviceLost',
        message:
          `${node} no longer finds device ${JSON.stringify(id)} of Instance ${instance}, which ` +
          `the Pod has by ${resource}`,
      })
    return resources.size
  }
}
