import { setMaxListeners } from 'node:events'
import { keyOf, keyParts, type NodeName, type ObjectKey, type ReconcileQueue } from '@akrijs/kube'
import { reconcileDeployment } from './brokers/configuration-deployment.js'
import { reportHeldBrokers } from './brokers/held-brokers.js'
import { reconcileBrokers } from './brokers/reconcile-brokers.js'
import { Rollouts } from './brokers/rollouts.js'
import { labelInstance } from './instance-labels.js'
import { LostNodes } from './nodes/lost-nodes.js'
import { silentMs, unreportedMs } from './nodes/node-presence.js'
import { endPods } from './nodes/pods-to-end.js'
import { ConfigurationSummaries } from './reports/configuration-summaries.js'
import { reconcileInstanceProblems } from './reports/instance-problems.js'
import { reconcileLeftReport } from './reports/left-reports.js'
import { Memberships } from './reports/memberships.js'
import {
  reconcileConfigurationService,
  reconcileInstanceService,
} from './services/broker-services.js'
import { beginTerm, type ControllerOptions, type Term } from './term.js'
import { WorkQueues } from './work-queues.js'

/** How long problems of devices are gathered: each write of an Instance wakes all agents. */
const GATHER_PROBLEMS_MS = 1000
/**
 * How long the summary of changed Instances waits: each write of it wakes all agents. The report of
 * a node comes a quarter of a second after the Instance of a new device, and ends the wait.
 */
const GATHER_SUMMARIES_MS = 1000
/** How long nodes that join or leave an Instance are gathered: each write wakes all agents. */
const GATHER_MEMBERSHIPS_MS = 500

/**
 * Does the controller's work until the term of this replica ends. A change of an object reconciles
 * everything that depends on the object. Listeners only add keys to queues: an error there would
 * end every watch, and not only the work on one object.
 */
export async function control(options: ControllerOptions, signal: AbortSignal): Promise<void> {
  // Each queue and each request adds a listener.
  setMaxListeners(0, signal)
  const term = beginTerm(options)
  const queues = new WorkQueues(term, signal)
  const workloads = queueWorkloads(term, queues, signal)
  queueStatuses(term, workloads, queues, signal)
  queueMemberships(term, queues, signal)
  await queues.run()
}

interface Workloads {
  readonly rollouts: Rollouts
  /** The queue of nodes that may be lost. */
  readonly nodes: ReconcileQueue<NodeName>
}

/** The work on brokers, Services, Deployments, labels of Instances and lost nodes. */
function queueWorkloads(term: Term, queues: WorkQueues, signal: AbortSignal): Workloads {
  const { state, failures } = term
  const rollouts = new Rollouts(term.sights, state.instances.cache.list(), (instance) =>
    brokers.add(instance),
  )
  const lostNodes = new LostNodes(term, signal)
  const nodes = queues.queueOf<NodeName>('Node', (node, _, end) => lostNodes.reconcile(node, end))
  const addNode = (node: NodeName) => nodes.add(node)
  const brokers: ReconcileQueue<ObjectKey> = queues.workloadQueue('Instance', (key, _, end) =>
    failures.watch('Instance', key, () => reconcileBrokers(key, term, rollouts, end)),
  )
  const ofInstances = [
    brokers,
    queues.workloadQueue('Instance', reconcileInstanceService),
    queues.workloadQueue('Instance', (key, _, end) =>
      lostNodes.reconcileInstance(key, addNode, end),
    ),
    queues.workloadQueue('Instance', reportHeldBrokers),
    queues.workloadQueue('Instance', labelInstance),
  ]
  const ofConfigurations = [
    queues.workloadQueue('Configuration', (key, _, end) =>
      failures.watch('Configuration', key, () => reconcileDeployment(key, term, end)),
    ),
    queues.workloadQueue('Configuration', reconcileConfigurationService),
  ]
  const suspects = queues.workloadQueue('Configuration', (key) =>
    lostNodes.reconcileConfiguration(key, addNode),
  )
  const addInstance = (key: ObjectKey) => {
    for (const queue of ofInstances) queue.add(key)
  }
  const addConfiguration = (key: ObjectKey) => {
    for (const queue of ofConfigurations) queue.add(key)
  }
  state.onInstanceChange(addInstance, signal)
  state.onConfigurationChange(addConfiguration, signal)
  state.statuses.cache.onChange((key) => suspects.add(key), signal)
  state.onNodeChange((node, instancesOfNode) => {
    if (!state.isReady(node)) addNode(node)
    for (const key of instancesOfNode) addInstance(key)
  }, signal)
  for (const instance of state.instances.cache.list()) addInstance(keyOf(instance))
  for (const found of state.configurations.cache.list()) addConfiguration(keyOf(found))
  for (const status of state.statuses.cache.list()) suspects.add(keyOf(status))
  return { rollouts, nodes }
}

/** The work on summaries of Configurations, on problems of Instances and on reports. */
function queueStatuses(
  term: Term,
  { rollouts, nodes }: Workloads,
  queues: WorkQueues,
  signal: AbortSignal,
): void {
  const { state, failures } = term
  const writer = new ConfigurationSummaries(term, rollouts)
  const summaries = queues.queueOf('Configuration', (key, _, end) => writer.reconcile(key, end))
  const problems = queues.queueOf('Configuration', reconcileInstanceProblems, GATHER_PROBLEMS_MS)
  const leftReports = queues.queueOf('NodeReport', reconcileLeftReport)
  const ends = queues.queueOf('NodeReport', endPods)
  const addEnds = (key: ObjectKey) => {
    if (state.reports.cache.get(key)?.podsToEnd !== undefined) ends.add(key)
  }
  state.reports.cache.onChange(addEnds, signal)
  state.onReportChange((key) => {
    summaries.add(key)
    problems.add(key)
  }, signal)
  state.onOwnInstancesChange((key) => {
    summaries.add(key, GATHER_SUMMARIES_MS)
    problems.add(key)
  }, signal)
  const addSummaries = () => {
    for (const status of state.statuses.cache.list()) summaries.add(keyOf(status))
  }
  const addSummaryOf = (instance: ObjectKey) => {
    for (const key of state.ownerKeysOf(instance)) summaries.add(key)
  }
  state.onBrokersChange((key) => summaries.add(key), signal)
  rollouts.onChange((key) => summaries.add(key), signal)
  state.onNodeChange((_node, instancesOfNode) => {
    for (const key of instancesOfNode) addSummaryOf(key)
  }, signal)
  failures.onChange(
    (kind, key) => (kind === 'Instance' ? addSummaryOf(key) : summaries.add(key)),
    signal,
  )
  const addReport = (node: NodeName) => {
    leftReports.add(node)
    // Its agent may have left.
    nodes.add(node)
  }
  state.reportIndex.onPresence((node) => {
    // Dates the silence of an agent when it begins.
    silentMs(node, term)
    unreportedMs(node, term)
    addSummaries()
    addReport(node)
  }, signal)
  void state.reportsSynced.then(() => {
    addSummaries()
    for (const status of state.statuses.cache.list()) problems.add(keyOf(status))
    for (const report of state.reports.cache.list()) {
      addReport(report.metadata.name)
      addEnds(keyOf(report))
    }
  })
}

/** The work on Instances that nodes want to join or to leave, as their reports ask. */
function queueMemberships(term: Term, queues: WorkQueues, signal: AbortSignal): void {
  const { state } = term
  const memberships = new Memberships(term)
  const joins = queues.queueOf(
    'Instance',
    (key, _, end) => memberships.reconcile(key, end),
    GATHER_MEMBERSHIPS_MS,
  )
  const follow = (key: ObjectKey) => {
    const report = state.reports.cache.get(key)
    const changed = memberships.follow(keyParts(key).name as NodeName, report?.memberships)
    for (const instance of changed) joins.add(instance)
  }
  state.reports.cache.onChange(follow, signal)
  state.instances.cache.onChange((key) => {
    if (memberships.hasWishes(key)) joins.add(key)
  }, signal)
  state.reportIndex.onPresence((node) => {
    for (const instance of memberships.instancesOf(node)) joins.add(instance)
  }, signal)
  for (const report of state.reports.cache.list()) follow(keyOf(report))
}
