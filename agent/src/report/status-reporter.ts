import type { DeviceProblem, InstanceName, NodeStatus } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Logger, messageOf } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { Discovery } from '../discovery/discovery.js'
import type { InstancesView } from '../instances/instances-view.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import type { SlotBook } from '../slots/slot-book.js'
import {
  deviceProblems,
  findings,
  type Problem,
  type Problems,
  reportedProblems,
} from './device-problems.js'
import { mergeReports } from './device-reports.js'
import { nodeStatus, notReady, refusedStatus } from './node-status.js'

interface StatusReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'reportStatus' | 'recordEvent'>
  readonly configurations: Pick<AcceptedConfigurations, 'rival'>
  readonly discovery: Pick<Discovery, 'status' | 'deviceSet'>
  readonly reconciler: { view(configuration: ObjectKey): InstancesView }
  readonly plugins: {
    /** The resources of a Configuration that the kubelet does not have. */
    registrationProblems(configuration: ObjectKey): readonly RegistrationProblem[]
  }
  readonly book: Pick<SlotBook, 'lost'>
  readonly node: NodeName
  readonly log: Logger
}

/** The problems that the last Events of a Configuration were about. */
interface Recorded {
  /** Reason and message by condition. */
  readonly conditions: Map<string, string>
  devices: Map<InstanceName, Problem>
}

/**
 * Reports the status of Configurations on this node, and records an Event for each new problem of a
 * Configuration or a device, and for its end.
 */
export class StatusReporter {
  readonly #options: StatusReporterOptions
  readonly #recorded = new Map<ObjectKey, Recorded>()
  /** The Configurations with Instances that are being deleted while their devices are there. */
  readonly #holding = new Set<ObjectKey>()

  constructor(options: StatusReporterOptions) {
    this.#options = options
  }

  /** @param failure the error of the reconcile before; undefined after a success */
  async report(key: ObjectKey, failure?: unknown): Promise<void> {
    const { cluster, node, reconciler } = this.#options
    const view = reconciler.view(key)
    this.#logHeld(key, view)
    const nothing = { conditions: new Map(), devices: new Map() }
    const recorded: Recorded = this.#recorded.get(key) ?? nothing
    this.#recorded.set(key, recorded)
    const report = this.#reportOf(key, view, failure, recorded)
    if (report === undefined) this.#recorded.delete(key)
    else {
      this.#recordConditions(key, report.status, recorded)
      await cluster.reportStatus(key, node, report.status, report.problems)
    }
  }

  #logHeld(configuration: ObjectKey, { held: [first, ...others] }: InstancesView): void {
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
    view: InstancesView,
    failure: unknown,
    recorded: Recorded,
  ): { status: NodeStatus; problems?: readonly DeviceProblem[] } | undefined {
    const { cluster, configurations, discovery, plugins, book, log } = this.#options
    const configuration = cluster.configurations.get(key)
    if (configuration === undefined) return undefined
    const rival = configurations.rival(key)
    if (rival !== undefined) return { status: refusedStatus(configuration, rival) }
    try {
      const found = discovery.status(key)
      if (found === undefined) return undefined
      const devices = discovery.deviceSet(key)
      const registrations = plugins.registrationProblems(key)
      const reports = mergeReports(found.endpoints.map((endpoint) => endpoint.reports))
      const input = { ...view, configuration, devices, reports, registrations, failure }
      const status = nodeStatus({ ...input, discovery: found })
      const reported = reportedProblems(reports, view.served.values())
      this.#recordDevices(reported, view, recorded)
      const others = findings(devices, view.served.values(), book.lost(configuration.metadata.name))
      const hasList = found.endpoints.some(({ state }) => state.phase === 'open' && state.listed)
      if (!hasList && others.size === 0) return { status }
      // What the agent found comes before what the handler reports of the same device.
      return { status, problems: deviceProblems(new Map([...reported, ...others])) }
    } catch (error) {
      log.error({ configuration: key, err: error }, 'status not computed')
      return { status: notReady(configuration, 'InternalError', messageOf(error)) }
    }
  }

  #recordConditions(key: ObjectKey, { conditions }: NodeStatus, before: Recorded): void {
    const { cluster } = this.#options
    // A problem of the handler shows in several conditions, by other reasons, and needs one Event.
    const recorded = new Set<string>()
    const regarding = { kind: 'Configuration', key } as const
    for (const { type, status, reason, message } of conditions) {
      const problem = `${reason} ${message}`
      if (status === 'False') {
        if (before.conditions.get(type) === problem) continue
        before.conditions.set(type, problem)
        if (recorded.has(reason) || recorded.has(message)) continue
        recorded.add(reason).add(message)
        cluster.recordEvent({ regarding, reason, message, type: 'Warning' })
      } else if (status === 'True' && before.conditions.delete(type))
        cluster.recordEvent({ regarding, reason, message, type: 'Normal' })
    }
  }

  #recordDevices(problems: Problems, { served }: InstancesView, recorded: Recorded): void {
    const { cluster, node } = this.#options
    const before = recorded.devices
    recorded.devices = new Map()
    if (problems.size + before.size === 0) return
    for (const { key, name, existing } of served.values()) {
      const [was, is] = [before.get(name), problems.get(name)]
      const regarding = { kind: 'Instance', key } as const
      const over = { type: 'Normal', reason: 'DeviceProblemOver' } as const
      const begun = { type: 'Warning', reason: 'DeviceProblem' } as const
      if (is === undefined) {
        if (was !== undefined) cluster.recordEvent({ regarding, ...over, message: was.reason })
        continue
      }
      // All nodes that see the device have its problem: the first of them reports it.
      if (existing?.spec.nodes[0] !== node) continue
      recorded.devices.set(name, is)
      if (was?.reason !== is.reason)
        cluster.recordEvent({ regarding, ...begun, message: is.reason })
    }
  }
}
