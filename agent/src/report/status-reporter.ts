import type { NodeStatus } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { Discovery } from '../discovery/discovery.js'
import type { InstanceReconciler } from '../instances/instance-reconciler.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import type { SlotBook } from '../slots/slot-book.js'
import {
  deviceProblems,
  type FindingsByInstance,
  findings,
  problemsByInstance,
  type ServedDevice,
} from './device-problems.js'
import { mergeReports } from './device-reports.js'
import { brokenStatus, nodeStatus, refusedStatus } from './node-status.js'
import { ProblemEvents } from './problem-events.js'
import { StatusEvents } from './status-events.js'

interface StatusReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'reportStatus' | 'recordEvent'>
  readonly configurations: AcceptedConfigurations
  readonly discovery: Pick<Discovery, 'status' | 'deviceSet'>
  readonly reconciler: Pick<
    InstanceReconciler,
    'collisions' | 'held' | 'present' | 'refusals' | 'taken'
  > & {
    served(configuration: ObjectKey): Iterable<ServedDevice>
  }
  readonly plugins: {
    /** The resources of a Configuration that the kubelet does not have. */
    registrationProblems(configuration: ObjectKey): readonly RegistrationProblem[]
  }
  readonly book: Pick<SlotBook, 'lost'>
  readonly node: NodeName
  readonly log: Logger
}

/** Reports the status of Configurations on this node, with an Event for each problem. */
export class StatusReporter {
  readonly #options: StatusReporterOptions
  readonly #events: StatusEvents
  readonly #problemEvents: ProblemEvents
  /** The Configurations with Instances that are being deleted while their devices are there. */
  readonly #holding = new Set<ObjectKey>()

  constructor(options: StatusReporterOptions) {
    this.#options = options
    this.#events = new StatusEvents(options.cluster)
    this.#problemEvents = new ProblemEvents(options.cluster, options.node)
  }

  /** @param failure the error of the reconcile before; undefined after a success */
  async report(key: ObjectKey, failure?: unknown): Promise<void> {
    const { cluster, node, discovery, reconciler } = this.#options
    const status = this.#statusOf(key, failure)
    this.#logHeld(key)
    if (status === undefined) {
      this.#problemEvents.forget(key)
      return this.#events.forget(key)
    }
    this.#events.follow(key, status)
    const { endpoints = [] } = discovery.status(key) ?? {}
    const hasList = endpoints.some(({ state }) => state.phase === 'open' && state.listed)
    const served = () => reconciler.served(key)
    const reports = mergeReports(endpoints.map((endpoint) => endpoint.reports)) ?? []
    const problems = problemsByInstance(reports, served)
    this.#problemEvents.follow(key, problems, served)
    const found = this.#findingsOf(key, served)
    const problemsOfDevices =
      hasList || found.size > 0 ? deviceProblems(problems, found) : undefined
    await cluster.reportStatus(key, node, status, problemsOfDevices)
  }

  #findingsOf(key: ObjectKey, served: () => Iterable<ServedDevice>): FindingsByInstance {
    const { book, configurations, discovery } = this.#options
    const configuration = configurations.get(key)
    if (configuration === undefined) return new Map()
    try {
      const lost = book.lost(configuration.metadata.name)
      return findings(discovery.deviceSet(key), served, lost)
    } catch {
      // The status has the error.
      return new Map()
    }
  }

  #logHeld(configuration: ObjectKey): void {
    const { log, reconciler } = this.#options
    const [first, ...others] = reconciler.held(configuration)
    if (first === undefined) {
      if (this.#holding.delete(configuration))
        log.info({ configuration }, 'no Instance is held any more')
    } else if (!this.#holding.has(configuration)) {
      this.#holding.add(configuration)
      const { name: instance, finalizers } = first
      log.warn(
        { configuration, instance, finalizers: finalizers.slice(0, 3), others: others.length },
        'Instance is being deleted while its device is there: finalizers hold it',
      )
    }
  }

  #statusOf(key: ObjectKey, failure: unknown): NodeStatus | undefined {
    const { cluster, configurations, discovery, reconciler, plugins, log } = this.#options
    const rival = configurations.rival(key)
    if (rival !== undefined) return refusedStatus(cluster.configurations.get(key), rival)
    const configuration = configurations.get(key)
    if (configuration === undefined) return undefined
    try {
      const status = discovery.status(key)
      if (status === undefined) return undefined
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
        held: reconciler.held(key),
        registrations: plugins.registrationProblems(key),
        present: reconciler.present(key),
        failure,
      })
    } catch (error) {
      log.error({ configuration: key, err: error }, 'status not computed')
      return brokenStatus(configuration, error)
    }
  }
}
