import type { InstanceName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodePods } from '../kubelet/kubelet.js'
import type { AllocationLedger } from './allocation-ledger.js'

interface LostDevicesOptions {
  readonly cluster: Pick<Cluster, 'recordEvent'>
  readonly kubelet: { readonly pods: Pick<NodePods, 'uidOf'> | undefined }
  readonly ledger: AllocationLedger
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  /** Whether the device of an Instance is still gone. */
  isLost(instance: InstanceName): boolean
}

/** A device that is gone. */
export interface LostDevice {
  /** Undefined if the device went while no agent ran, and its Instance with it. */
  readonly id: string | undefined
  readonly instance: InstanceName
}

interface Waiting extends LostDevice {
  /** Monotonic time until which the Pods of young allocations are awaited. */
  readonly until: number
  /** The Pods that have their Event. */
  readonly podsWithEvent: Set<ObjectKey>
}

/**
 * How long the Pods of a lost device are awaited, in milliseconds. The kubelet lists a Pod whose
 * init containers run only when the other containers start.
 */
const AWAIT_MS = 300_000

/**
 * Records an Event for each Pod whose device is gone. The Pods of young allocations are known after
 * one of the next answers of the kubelet, so devices wait for that.
 */
export class LostDevices {
  readonly #options: LostDevicesOptions
  readonly #waiting = new Map<InstanceName, Waiting>()

  constructor(options: LostDevicesOptions) {
    this.#options = options
  }

  /** @returns whether containers of this node use the device */
  add(device: LostDevice): boolean {
    const { clock, ledger } = this.#options
    if (ledger.inUse(device.instance).length === 0) return false
    const until = clock.monotonicMs() + AWAIT_MS
    this.#waiting.set(device.instance, { ...device, until, podsWithEvent: new Set() })
    return true
  }

  /** To be called when the ledger has the Pods that the kubelet lists. */
  report(): void {
    const { clock, isLost, ledger } = this.#options
    for (const [name, device] of this.#waiting) {
      const isStillLost = isLost(name)
      if (isStillLost) this.#record(device)
      const isKnown = ledger.inUse(name).every((each) => ledger.usersOf(each) !== undefined)
      if (!isStillLost || isKnown || clock.monotonicMs() >= device.until) this.#waiting.delete(name)
    }
  }

  #record({ id, instance, podsWithEvent }: Waiting): void {
    const { cluster, kubelet, ledger, log, node } = this.#options
    const resources = new Map(
      ledger
        .inUse(instance)
        .flatMap((each) =>
          [...(ledger.usersOf(each) ?? [])].map((pod) => [pod, each.resourceName] as const),
        )
        .filter(([pod]) => !podsWithEvent.has(pod)),
    )
    const device = id === undefined ? 'the device' : `device ${JSON.stringify(id)}`
    for (const [key, resource] of resources) {
      podsWithEvent.add(key)
      cluster.recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Pod', key, uid: kubelet.pods?.uidOf(key) },
        type: 'Warning',
        reason: 'DeviceLost',
        message:
          `${node} no longer finds ${device} of Instance ${instance}, which ` +
          `the Pod has by ${resource}`,
      })
    }
    // Users are Pods, or the brokers of a machine without a cluster.
    const users = resources.size
    if (users > 0) log.warn({ id, instance, users }, 'device in use lost')
  }
}
