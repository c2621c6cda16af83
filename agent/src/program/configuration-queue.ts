import type { Configuration } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue } from '@akrijs/kube/queue'
import type { Clock, Logger } from '@akrijs/runtime'
import type { ObjectCache } from '../cluster/cluster.js'
import type { Discovery } from '../discovery/discovery.js'
import type { InstanceReconciler } from '../instances/instance-reconciler.js'
import type { DevicePlugins } from '../plugins/device-plugins.js'
import type { AgentObserver } from '../report/observer.js'
import type { StatusReporter } from '../report/status-reporter.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { RememberedOffer } from './saved-state.js'

interface ConfigurationQueueOptions {
  readonly configurations: ObjectCache<Configuration>
  readonly discovery: Discovery
  readonly reconciler: InstanceReconciler
  readonly plugins: DevicePlugins
  readonly book: SlotBook
  readonly status: StatusReporter
  readonly offer: RememberedOffer
  readonly observer: AgentObserver
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/**
 * A change waits so many milliseconds for further changes before its reconcile. Requests of the
 * kubelet have the processor first.
 */
const GATHER_MS = 10
/** The same for registrations of plugins: those of thousands of plugins fail together. */
const REGISTRATIONS_MS = 1000

/**
 * Reconciles a Configuration, and reports its status, after a change of the Configuration, its
 * devices, its Instances, the registrations of its plugins, or its lost devices.
 */
export function configurationQueue(options: ConfigurationQueueOptions): ReconcileQueue<ObjectKey> {
  const { configurations, discovery, reconciler, plugins, book, status, offer, log, signal } =
    options
  const queue = new ReconcileQueue<ObjectKey>({
    clock: options.clock,
    gatherMs: GATHER_MS,
    async reconcile(key) {
      let failure: unknown
      try {
        return await options.observer.reconciling('Configuration', () => reconciler.reconcile(key))
      } catch (error) {
        failure = error
        throw error
      } finally {
        offer.tried(key)
        await status.report(key, failure)
      }
    },
    onError: (configuration, error, retryInMs) =>
      log.warn({ configuration, err: error, retryInMs }, 'reconcile failed'),
  })
  const add = (key: ObjectKey) => queue.add(key)
  configurations.onChange(add, signal)
  // A device is offered at once. What else changes then is gathered.
  discovery.onChange((key) => queue.add(key, reconciler.isBehind(key) ? 0 : GATHER_MS), signal)
  reconciler.onChange(add, signal)
  plugins.onRegistrationChange((key) => queue.add(key, REGISTRATIONS_MS), signal)
  book.onLoss((device) => {
    for (const { metadata } of configurations.list())
      if (metadata.name === device.configuration) queue.add(keyOf({ metadata }))
  }, signal)
  return queue
}
