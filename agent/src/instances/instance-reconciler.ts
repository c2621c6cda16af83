import type { Instance } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue, type ReconcileResult } from '@akrijs/kube/queue'
import {
  ConfigurationInstances,
  type InstanceReconcilerOptions,
  isUnchanged,
} from './configuration-instances.js'
import { isOwnedBy } from './existing-instances.js'
import { leaveInstance } from './instance-work.js'
import { type InstancesView, instancesView, NO_PLAN } from './instances-view.js'
import { inParallel, throwFirst } from './parallel-work.js'

/**
 * A change waits so many milliseconds for further changes before its reconcile. Requests of the
 * kubelet have the processor first.
 */
const GATHER_MS = 10
/** The same for registrations of plugins: those of thousands of plugins fail together. */
const REGISTRATIONS_MS = 1000

/**
 * Keeps the Instances and the device plugins of this node in step with discovered devices. Each
 * pass compares all that should be there with all that is there.
 */
export class InstanceReconciler {
  readonly #options: InstanceReconcilerOptions
  readonly #served = new Map<ObjectKey, ConfigurationInstances>()
  readonly #queue: ReconcileQueue<ObjectKey>

  constructor(options: InstanceReconcilerOptions) {
    const { configurations, discovery, instances, plugins, book, clock, log, signal } = options
    this.#options = options
    const queue = new ReconcileQueue<ObjectKey>({
      clock,
      gatherMs: GATHER_MS,
      reconcile: (key) => this.#reconcileAndReport(key),
      onError: (configuration, error, retryInMs) =>
        log.warn({ configuration, err: error, retryInMs }, 'reconcile failed'),
    })
    this.#queue = queue
    configurations.onChange((key) => queue.add(key), signal)
    // A device is offered at once. What else changes then is gathered.
    discovery.onChange((key) => queue.add(key, this.#isBehind(key) ? 0 : GATHER_MS), signal)
    instances.onChange((key, name, isMinor) => {
      if (this.#served.get(key)?.instanceChanged(name, isMinor) ?? true) queue.add(key)
    }, signal)
    plugins.onRegistrationChange((key) => queue.add(key, REGISTRATIONS_MS), signal)
    book.onLoss((device) => {
      for (const { metadata } of configurations.list())
        if (metadata.name === device.configuration) queue.add(keyOf({ metadata }))
    }, signal)
  }

  /** How many Configurations wait for their turn. */
  get queued(): number {
    return this.#queue.depth
  }

  /** Reconciles all Configurations, and each again after a change, until the signal is aborted. */
  run(signal: AbortSignal): Promise<void> {
    // Also those that are not accepted: their status names the reason.
    for (const configuration of this.#options.cluster.configurations.list())
      this.#queue.add(keyOf(configuration))
    return this.#queue.run(signal)
  }

  view(key: ObjectKey): InstancesView {
    return this.#served.get(key)?.view ?? instancesView(NO_PLAN, [])
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const found = this.#options.configurations.get(key)
    const configuration = found?.metadata.deletionTimestamp === undefined ? found : undefined
    const before = this.#served.get(key)
    if (before !== undefined && before.uid !== configuration?.metadata.uid) {
      await before.stop()
      this.#served.delete(key)
    }
    if (configuration === undefined) return this.#leaveRefused(key)
    const served = this.#served.get(key) ?? new ConfigurationInstances(configuration, this.#options)
    this.#served.set(key, served)
    return served.reconcile(configuration)
  }

  async #reconcileAndReport(key: ObjectKey): Promise<ReconcileResult> {
    const { observer, reconciled } = this.#options
    let failure: unknown
    try {
      return await observer.reconciling('Configuration', () => this.reconcile(key))
    } catch (error) {
      failure = error
      throw error
    } finally {
      await reconciled(key, failure)
    }
  }

  /** Whether the devices have changed since the last pass. */
  #isBehind(key: ObjectKey): boolean {
    const devices = this.#options.discovery.deviceSet(key)
    const before = this.#served.get(key)?.devices
    return devices !== before && devices.devices.size + (before?.devices.size ?? 0) > 0
  }

  /**
   * Leaves the Instances of a Configuration that is not accepted: it may have been served before
   * the rules of names changed. The garbage collector deletes those of a deleted Configuration.
   */
  async #leaveRefused(key: ObjectKey): Promise<ReconcileResult> {
    const { cluster, instances, node, signal } = this.#options
    const refused = cluster.configurations.get(key)
    if (refused === undefined || refused.metadata.deletionTimestamp !== undefined) return {}
    const joined = instances
      .of(key)
      .filter((each) => isOwnedBy(each, refused) && each.spec.nodes.includes(node))
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
