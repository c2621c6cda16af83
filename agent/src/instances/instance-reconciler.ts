import type { Instance } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { Listeners } from '@akrijs/runtime'
import {
  ConfigurationInstances,
  type ConfigurationInstancesOptions,
  isUnchanged,
} from './configuration-instances.js'
import { isOwnedBy } from './existing-instances.js'
import { leaveInstance } from './instance-writes.js'
import { type InstancesView, instancesView, NO_PLAN } from './instances-view.js'
import { inParallel, throwFirst } from './parallel-work.js'

/**
 * Keeps the Instances and the device plugins of this node in step with discovered devices. Each
 * pass compares all that should be there with all that is there.
 */
export class InstanceReconciler {
  readonly #options: ConfigurationInstancesOptions
  readonly #served = new Map<ObjectKey, ConfigurationInstances>()
  readonly #changed = new Listeners<[configuration: ObjectKey]>()

  constructor(options: ConfigurationInstancesOptions) {
    this.#options = options
    options.instances.onChange((configuration, name, isMinor) => {
      const isPlan = this.#served.get(configuration)?.instanceChanged(name, isMinor) ?? true
      if (isPlan) this.#changed.tell(configuration)
    }, options.signal)
  }

  /** Calls back after a change of an Instance that may change the plan of its Configuration. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#changed.add(listener, signal)
  }

  view(key: ObjectKey): InstancesView {
    return this.#served.get(key)?.view ?? instancesView(NO_PLAN)
  }

  /** Whether the devices have changed since the last pass. */
  isBehind(configuration: ObjectKey): boolean {
    const devices = this.#options.deviceSet(configuration)
    const before = this.#served.get(configuration)?.devices
    return devices !== before && devices.devices.size + (before?.devices.size ?? 0) > 0
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const configuration = this.#options.configurations.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      await this.#stopServing(key)
      return this.#leaveRefused(key)
    }
    const before = this.#served.get(key)
    if (before?.uid === configuration.metadata.uid) return before.reconcile(configuration)
    if (before !== undefined) await this.#stopServing(key)
    const served = new ConfigurationInstances(configuration, this.#options)
    this.#served.set(key, served)
    return served.reconcile(configuration)
  }

  async #stopServing(key: ObjectKey): Promise<void> {
    await this.#served.get(key)?.stop()
    this.#served.delete(key)
  }

  /**
   * Leaves the Instances of a Configuration that is not accepted: it may have been served before
   * the rules of names changed. The garbage collector deletes those of a deleted Configuration.
   */
  async #leaveRefused(key: ObjectKey): Promise<ReconcileResult> {
    const { cluster, instances, node, signal } = this.#options
    const refused = cluster.configurations.get(key)
    if (refused === undefined || refused.metadata.deletionTimestamp !== undefined) return {}
    const joined = [...instances.of(key)].filter(
      (instance) => isOwnedBy(instance, refused) && instance.spec.nodes.includes(node),
    )
    let soonest = Infinity
    const leave = async (instance: Instance) => {
      const wait = await leaveInstance(this.#options, { instance, device: 'gone' })
      soonest = Math.min(soonest, wait)
    }
    const isRefused = () => !signal.aborted && isUnchanged(cluster.configurations.get(key), refused)
    throwFirst(await inParallel(joined, leave, isRefused))
    return soonest === Infinity ? {} : { requeueAfterMs: soonest }
  }
}
