import { configurationOf, type NodeStatus } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../../ports/cluster.js'
import type { AcceptedConfigurations } from '../accepted-configurations.js'
import type { Discovery } from '../discovery/discovery.js'
import type { InstanceReconciler } from '../instances/instance-reconciler.js'
import { brokenStatus, nodeStatus, refusedStatus } from './node-status.js'
import { StatusEvents } from './status-events.js'

interface StatusReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'instances' | 'reportStatus' | 'recordEvent'>
  readonly configurations: AcceptedConfigurations
  readonly discovery: Pick<Discovery, 'status' | 'deviceSet'>
  readonly reconciler: Pick<InstanceReconciler, 'collisions' | 'refusals' | 'taken'>
  readonly node: NodeName
  readonly log: Logger
}

/** Reports the status of Configurations on this node, with an Event for each problem. */
export class StatusReporter {
  readonly #options: StatusReporterOptions
  readonly #events: StatusEvents

  constructor(options: StatusReporterOptions) {
    this.#options = options
    this.#events = new StatusEvents(options.cluster)
  }

  /** @param failure the error of the reconcile before; undefined after a success */
  async report(key: ObjectKey, failure?: unknown): Promise<void> {
    const status = this.#statusOf(key, failure)
    if (status === undefined) return this.#events.forget(key)
    this.#events.follow(key, status)
    await this.#options.cluster.reportStatus(key, this.#options.node, status)
  }

  #statusOf(key: ObjectKey, failure: unknown): NodeStatus | undefined {
    const { cluster, configurations, discovery, reconciler, node, log } = this.#options
    const rival = configurations.rival(key)
    if (rival !== undefined) return refusedStatus(cluster.configurations.get(key), rival)
    const configuration = configurations.get(key)
    if (configuration === undefined) return undefined
    try {
      const status = discovery.status(key)
      if (status === undefined) return undefined
      const instances = cluster.instances
        .list()
        .filter(
          (instance) => configurationOf(instance) === key && instance.spec.nodes.includes(node),
        )
      const devices = discovery.deviceSet(key)
      const collisions = reconciler.collisions(key)
      const refusals = reconciler.refusals(key)
      const taken = reconciler.taken(key)
      return nodeStatus({
        configuration,
        discovery: status,
        devices,
        collisions,
        refusals,
        taken,
        instances,
        failure,
      })
    } catch (error) {
      log.error({ configuration: key, err: error }, 'status not computed')
      return brokenStatus(configuration, error)
    }
  }
}
