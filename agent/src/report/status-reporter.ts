import type { DeviceProblem, NodeStatus } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { Discovery } from '../discovery/discovery.js'
import type { InstancesView } from '../instances/instances-view.js'
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

type View = Omit<InstancesView, 'served'> & {
  readonly served: Pick<ReadonlyMap<unknown, ServedDevice>, 'values'>
}

interface StatusReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'reportStatus' | 'recordEvent'>
  readonly configurations: AcceptedConfigurations
  readonly discovery: Pick<Discovery, 'status' | 'deviceSet'>
  readonly reconciler: { view(configuration: ObjectKey): View }
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
  readonly #events: ProblemEvents
  /** The Configurations with Instances that are being deleted while their devices are there. */
  readonly #holding = new Set<ObjectKey>()

  constructor(options: StatusReporterOptions) {
    this.#options = options
    this.#events = new ProblemEvents(options.cluster, options.node)
  }

  /** @param failure the error of the reconcile before; undefined after a success */
  async report(key: ObjectKey, failure?: unknown): Promise<void> {
    const { cluster, node, reconciler } = this.#options
    const view = reconciler.view(key)
    this.#logHeld(key, view)
    const report = this.#reportOf(key, view, failure)
    if (report === undefined) return this.#events.forget(key)
    this.#events.followStatus(key, report.status)
    await cluster.reportStatus(key, node, report.status, report.problems)
  }

  #logHeld(configuration: ObjectKey, { held: [first, ...others] }: View): void {
    const { log } = this.#options
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

  /** @returns no problems of devices if this agent does not know them yet */
  #reportOf(
    key: ObjectKey,
    view: View,
    failure: unknown,
  ): { status: NodeStatus; problems?: readonly DeviceProblem[] } | undefined {
    const { cluster, configurations, discovery, plugins, log } = this.#options
    const rival = configurations.rival(key)
    if (rival !== undefined)
      return { status: refusedStatus(cluster.configurations.get(key), rival) }
    const configuration = configurations.get(key)
    if (configuration === undefined) return undefined
    try {
      const found = discovery.status(key)
      if (found === undefined) return undefined
      const devices = discovery.deviceSet(key)
      const registrations = plugins.registrationProblems(key)
      const reports = mergeReports(found.endpoints.map((endpoint) => endpoint.reports))
      const input = { ...view, configuration, devices, reports, registrations, failure }
      const status = nodeStatus({ ...input, discovery: found })
      const problems = problemsByInstance(reports ?? [], view.served.values())
      this.#events.followDevices(key, problems, view.served.values())
      const lost = this.#options.book.lost(configuration.metadata.name)
      const others = findings(devices, view.served.values(), lost)
      const hasList = found.endpoints.some(({ state }) => state.phase === 'open' && state.listed)
      if (!hasList && others.size === 0) return { status }
      return { status, problems: deviceProblems(problems, others) }
    } catch (error) {
      log.error({ configuration: key, err: error }, 'status not computed')
      return { status: brokenStatus(configuration, error) }
    }
  }
}
