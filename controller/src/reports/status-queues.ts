import { CONFIGURATIONS, type Instance } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, type ReconcileQueue } from '@akrijs/kube'
import type { BrokerFailures } from '../brokers/broker-failures.js'
import { RefusedJobs } from '../brokers/refused-jobs.js'
import type { Rollouts } from '../brokers/rollouts.js'
import type { FirstSights } from '../first-sights.js'
import { silentMs, unreportedMs } from '../nodes/agent-absence.js'
import { endPods } from '../nodes/pods-to-end.js'
import { StatusWriter } from '../status-writer.js'
import { type ControllerOptions, namespaceOf, type WorkQueues } from '../work-queues.js'
import { ConfigurationSummaries } from './configuration-summaries.js'
import { InstanceProblems } from './instance-problems.js'
import { LeftReports } from './left-reports.js'

interface StatusQueuesOptions extends ControllerOptions {
  readonly sights: FirstSights
  readonly failures: BrokerFailures
  readonly instanceStatus: StatusWriter<Instance>
  readonly rollouts: Rollouts
  readonly nodes: Pick<ReconcileQueue<NodeName>, 'add'>
}

/** How long problems of devices are gathered: each write of an Instance wakes all agents. */
const GATHER_PROBLEMS_MS = 1000
/**
 * How long the summary of changed Instances waits: each write of it wakes all agents. The report of
 * a node comes a quarter of a second after the Instance of a new device, and ends the wait.
 */
const GATHER_SUMMARIES_MS = 1000

/**
 * Queues the work on summaries of Configurations, on problems of Instances and on reports that
 * agents have left, after each change of what it depends on.
 */
export function queueStatuses(
  options: StatusQueuesOptions,
  queues: WorkQueues,
  turn: AbortSignal,
): void {
  const { state, client, clock, log, failures, rollouts, nodes } = options
  const summaryWriter = new ConfigurationSummaries({
    ...options,
    refusedJobs: new RefusedJobs({ state, client, clock }),
    status: new StatusWriter({ kind: CONFIGURATIONS, collection: state.statuses, clock, log }),
  })
  const summaries = queues.queueOf<ObjectKey>(
    'Configuration',
    (key, signal) => summaryWriter.reconcile(key, signal),
    { groupOf: namespaceOf },
  )
  const instanceProblems = new InstanceProblems({ state, clock, status: options.instanceStatus })
  const problems = queues.queueOf<ObjectKey>(
    'Configuration',
    (key, signal) => instanceProblems.reconcile(key, signal),
    { gatherMs: GATHER_PROBLEMS_MS, groupOf: namespaceOf },
  )
  const leftReports = new LeftReports(options)
  const reports = queues.queueOf<NodeName>('NodeReport', (node, signal) =>
    leftReports.reconcile(node, signal),
  )
  const ends = queues.queueOf<ObjectKey>('NodeReport', async (key, signal) => {
    const report = state.reports.cache.get(key)
    if (report !== undefined) await endPods(report, options, signal)
    return {}
  })
  state.reports.cache.onChange((key) => {
    if (state.reports.cache.get(key)?.podsToEnd !== undefined) ends.add(key)
  }, turn)
  state.onReportChange((key) => {
    summaries.add(key)
    problems.add(key)
  }, turn)
  state.onOwnInstancesChange((key) => {
    summaries.add(key, GATHER_SUMMARIES_MS)
    problems.add(key)
  }, turn)
  const addSummaries = () => {
    for (const status of state.statuses.cache.list()) summaries.add(keyOf(status))
  }
  // Dates the silence of an agent when it begins.
  state.reportIndex.onPresence((node) => void silentMs(node, options), turn)
  state.reportIndex.onUnreported((node) => {
    unreportedMs(node, options)
    addSummaries()
  }, turn)
  const addSummaryOf = (instance: ObjectKey) => {
    for (const key of state.ownerKeysOf(instance)) summaries.add(key)
  }
  state.onBrokersChange((key) => summaries.add(key), turn)
  rollouts.onChange((key) => summaries.add(key), turn)
  state.onNodeChange((_node, instancesOfNode) => {
    for (const key of instancesOfNode) addSummaryOf(key)
  }, turn)
  failures.onChange(
    (kind, key) => (kind === 'Instance' ? addSummaryOf(key) : summaries.add(key)),
    turn,
  )
  const addReport = (node: NodeName) => {
    reports.add(node)
    // Its agent may have left.
    nodes.add(node)
  }
  state.reportIndex.onPresence(addReport, turn)
  void state.reportsSynced.then(() => {
    addSummaries()
    for (const status of state.statuses.cache.list()) problems.add(keyOf(status))
    for (const report of state.reports.cache.list()) {
      addReport(report.metadata.name)
      if (report.podsToEnd !== undefined) ends.add(keyOf(report))
    }
  })
}
