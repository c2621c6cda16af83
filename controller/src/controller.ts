import { setMaxListeners } from 'node:events'
import { configurationOf, nodesOf } from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey, type ReconcileQueue } from '@akrijs/kube'
import {
  reconcileConfigurationService,
  reconcileDeployment,
  reconcileInstanceService,
} from './brokers/applied-objects.js'
import { reconcileBrokers, reportHeldBrokers } from './brokers/reconcile-brokers.js'
import { labelInstance, Memberships } from './instance-nodes.js'
import { reconcileDeserted, reconcileNode, suspectsOf } from './nodes/lost-nodes.js'
import { silentMs, unreportedMs } from './nodes/node-presence.js'
import { endPods } from './nodes/pods-to-end.js'
import { ConfigurationSummaries } from './reports/configuration-summaries.js'
import { reconcileInstanceProblems } from './reports/instance-problems.js'
import { reconcileLeftReport } from './reports/left-reports.js'
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
  const nodes = queues.queueOf<NodeName>('Node', reconcileNode)
  const summaries = queueStatuses(term, nodes, queues, signal)
  queueWorkloads(term, nodes, summaries, queues, signal)
  queueMemberships(term, queues, signal)
  await queues.run()
}

/**
 * The work on brokers, Services, Deployments, labels of Instances and lost nodes.
 * @param nodes the queue of nodes that may be lost
 * @param summaries the queue of Configurations
 */
function queueWorkloads(
  term: Term,
  nodes: ReconcileQueue<NodeName>,
  summaries: ReconcileQueue<ObjectKey>,
  queues: WorkQueues,
  signal: AbortSignal,
): void {
  const { state, failures, rollouts } = term
  const addSuspects = (object: Parameters<typeof suspectsOf>[0], on: Iterable<NodeName>) => {
    for (const node of suspectsOf(object, on, state)) nodes.add(node)
  }
  // After each pass its failure and the roll-out can show in the summary.
  const brokers = queues.workloadQueue('Instance', async (key, _, end, recheckAfter) => {
    const work = () => reconcileBrokers(key, term, end, recheckAfter)
    const instance = state.instances.cache.get(key)
    await failures.watch('Instance', key, work).finally(() => {
      if (instance) summaries.add(configurationOf(instance), GATHER_SUMMARIES_MS)
    })
  })
  const ofInstances = [
    brokers,
    queues.workloadQueue('Instance', reconcileInstanceService),
    queues.workloadQueue('Instance', async (key, _, end) => {
      const instance = state.instances.cache.get(key)
      if (instance !== undefined) addSuspects(instance, nodesOf(instance))
      return reconcileDeserted(key, term, end)
    }),
    queues.workloadQueue('Instance', reportHeldBrokers),
    queues.workloadQueue('Instance', labelInstance),
  ]
  const ofConfigurations = [
    queues.workloadQueue('Configuration', (key, _, end) =>
      failures
        .watch('Configuration', key, () => reconcileDeployment(key, term, end))
        .finally(() => summaries.add(key, GATHER_SUMMARIES_MS)),
    ),
    queues.workloadQueue('Configuration', reconcileConfigurationService),
  ]
  // Also of a Configuration whose spec is invalid.
  const finalizers = queues.workloadQueue('Configuration', async (key) => {
    const stored = state.configurations.cache.get(key)
    if (stored !== undefined) addSuspects(stored, [])
  })
  const addInstance = (key: ObjectKey) => {
    for (const queue of ofInstances) queue.add(key)
  }
  const addConfiguration = (key: ObjectKey) => {
    for (const queue of ofConfigurations) queue.add(key)
  }
  rollouts.onRoom((keys) => {
    for (const key of keys) brokers.add(key)
  }, signal)
  state.pods.onChangeOf('Instance', (key) => rollouts.outdate(key), signal)
  state.onInstanceChange(addInstance, signal)
  state.onConfigurationChange(addConfiguration, signal)
  state.configurations.cache.onChange((key) => finalizers.add(key), signal)
  state.onNodeChange((node, instancesOfNode) => {
    if (!state.isReady(node)) nodes.add(node)
    for (const key of instancesOfNode) addInstance(key)
  }, signal)
  for (const instance of state.instances.cache.list()) addInstance(keyOf(instance))
  for (const found of state.configurations.cache.list()) {
    addConfiguration(keyOf(found))
    finalizers.add(keyOf(found))
  }
}

/**
 * The work on summaries of Configurations, on problems of Instances and on reports.
 * @returns the queue of summaries
 */
function queueStatuses(
  term: Term,
  nodes: ReconcileQueue<NodeName>,
  queues: WorkQueues,
  signal: AbortSignal,
): ReconcileQueue<ObjectKey> {
  const { state } = term
  const writer = new ConfigurationSummaries(term)
  const summaries = queues.queueOf('Configuration', (key, _, end, recheckAfter) =>
    writer.reconcile(key, end, recheckAfter),
  )
  const problems = queues.queueOf('Configuration', reconcileInstanceProblems, GATHER_PROBLEMS_MS)
  const leftReports = queues.queueOf('NodeReport', reconcileLeftReport)
  const ends = queues.queueOf('NodeReport', endPods)
  const addEnds = (key: ObjectKey) => {
    if (state.reports.cache.get(key)?.podsToEnd !== undefined) ends.add(key)
  }
  state.reports.cache.onChange(addEnds, signal)
  const addStatus = (key: ObjectKey, gatherMs = 0) => {
    summaries.add(key, gatherMs)
    problems.add(key)
  }
  state.configurations.cache.onChange((key) => addStatus(key), signal)
  state.reportIndex.onChange((key) => addStatus(key), signal)
  state.instancesByConfiguration.onChange((key) => addStatus(key, GATHER_SUMMARIES_MS), signal)
  const addSummaries = () => {
    for (const found of state.configurations.cache.list()) summaries.add(keyOf(found))
  }
  state.onBrokersChange((key) => summaries.add(key), signal)
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
    for (const found of state.configurations.cache.list()) problems.add(keyOf(found))
    for (const report of state.reports.cache.list()) {
      addReport(report.metadata.name)
      addEnds(keyOf(report))
    }
  })
  return summaries
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
  const follow = (node: NodeName) => {
    for (const instance of memberships.follow(node)) joins.add(instance)
  }
  state.reports.cache.onChange((key) => follow(keyParts(key).name as NodeName), signal)
  state.reportIndex.onPresence(follow, signal)
  state.instances.cache.onChange((key) => joins.add(key), signal)
  for (const report of state.reports.cache.list()) follow(report.metadata.name)
}
