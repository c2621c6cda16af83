import type { Configuration, DeviceProblem, NodeStatus } from '@akrijs/api'
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
  findings,
  problemsByInstance,
  type ServedDevice,
} from './device-problems.js'
import { mergeReports } from './device-reports.js'
import { brokenStatus, nodeStatus, refusedStatus } from './node-status.js'
import { ProblemEvents } from './problem-events.js'

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

/** The status of a Configuration. */
interface Report {
  readonly status: NodeStatus
  /** Of devices; undefined if this agent does not know them yet. */
  readonly problems?: readonly DeviceProblem[] | undefined
}

/** Reports the status of Configurations on this node, with an Event for each problem. */
export class StatusReporter {
  readonly #options: StatusReporterOptions
  readonly #events: ProblemEvents
  /** The Configurations with Instances that are being deleted while their devices are there. */
  readonly #holding = new Set<ObjectKey>()

  constructor(options: StatusReporterOptions) {
    this.#options = options
    this.#events = new ProblemEvents(options.cluster, options.node)
  }

  /** @param failure the error of the reconcile before; undefined after a success */
  async report(key: ObjectKey, failure?: unknown): Promise<void> {
    const { cluster, node } = this.#options
    this.#logHeld(key)
    const report = this.#reportOf(key, failure)
    if (report === undefined) return this.#events.forget(key)
    this.#events.followStatus(key, report.status)
    await cluster.reportStatus(key, node, report.status, report.problems)
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

  #reportOf(key: ObjectKey, failure: unknown): Report | undefined {
    const { cluster, configurations, log } = this.#options
    const rival = configurations.rival(key)
    if (rival !== undefined)
      return { status: refusedStatus(cluster.configurations.get(key), rival) }
    const configuration = configurations.get(key)
    if (configuration === undefined) return undefined
    try {
      const status = this.#statusOf(key, configuration, failure)
      return status && { status, problems: this.#problemsOf(key, configuration) }
    } catch (error) {
      log.error({ configuration: key, err: error }, 'status not computed')
      return { status: brokenStatus(configuration, error) }
    }
  }

  #statusOf(
    key: ObjectKey,
    configuration: Configuration,
    failure: unknown,
  ): NodeStatus | undefined {
    const { discovery, reconciler, plugins } = this.#options
    const status = discovery.status(key)
    return (
      status &&
      nodeStatus({
        configuration,
        discovery: status,
        devices: discovery.deviceSet(key),
        collisions: reconciler.collisions(key),
        refusals: reconciler.refusals(key),
        taken: reconciler.taken(key),
        held: reconciler.held(key),
        registrations: plugins.registrationProblems(key),
        present: reconciler.present(key),
        failure,
      })
    )
  }

  #problemsOf(key: ObjectKey, { metadata }: Configuration): readonly DeviceProblem[] | undefined {
    const { book, discovery, reconciler } = this.#options
    const { endpoints = [] } = discovery.status(key) ?? {}
    const served = [...reconciler.served(key)]
    const reports = mergeReports(endpoints.map((endpoint) => endpoint.reports)) ?? []
    const problems = problemsByInstance(reports, served)
    this.#events.followDevices(key, problems, served)
    const found = findings(discovery.deviceSet(key), served, book.lost(metadata.name))
    const hasList = endpoints.some(({ state }) => state.phase === 'open' && state.listed)
    return hasList || found.size > 0 ? deviceProblems(problems, found) : undefined
  }
}
