import { setMaxListeners } from 'node:events'
import { CONFIGURATIONS, type Compatibility, configurationOf, INSTANCES } from '@akrijs/api'
import {
  type ApiClient,
  ApiUnreachableError,
  type EventRecorder,
  keyOf,
  keyParts,
  type NodeName,
  type ObjectKey,
  ReconcileQueue,
  type ReconcileResult,
} from '@akrijs/kube'
import { type Clock, kindOf, type Logger, messageOf } from '@akrijs/runtime'
import { BrokerFailures } from './brokers/broker-failures.js'
import { reconcileDeployment } from './brokers/configuration-deployment.js'
import { reportHeldBrokers } from './brokers/held-brokers.js'
import { InstanceBrokers } from './brokers/instance-brokers.js'
import { RefusedJobs } from './brokers/refused-jobs.js'
import { Rollouts } from './brokers/rollouts.js'
import type { ClusterState } from './cluster-state.js'
import { OutdatedResourceError } from './errors.js'
import { labelInstance } from './instance-labels.js'
import type { ControlledKind, ControllerMetrics } from './metrics.js'
import { AbsentAgents } from './nodes/absent-agents.js'
import { LostNodes } from './nodes/lost-nodes.js'
import { SilentAgents } from './nodes/silent-agents.js'
import { ConfigurationSummaries } from './reports/configuration-summaries.js'
import { InstanceProblems } from './reports/instance-problems.js'
import { LeftReports } from './reports/left-reports.js'
import { Memberships } from './reports/memberships.js'
import {
  reconcileConfigurationService,
  reconcileInstanceService,
} from './services/broker-services.js'
import { StatusWriter } from './status-writer.js'

interface ControllerOptions {
  /** A state that has been started. */
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly events: Pick<EventRecorder, 'record'>
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly nodeGraceMs: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility
  /** @default none */
  readonly metrics?: Pick<ControllerMetrics, 'measure' | 'follow' | 'brokerRestarted'>
}

interface QueueOptions<Key> {
  /** How long a key waits for further changes, in milliseconds. @default 0 */
  readonly gatherMs?: number
  groupOf?(key: Key): string
  showFailure?(key: Key, error: unknown): void
}

/**
 * How many objects each queue reconciles at once. Namespaces take turns: a slow webhook for the
 * objects of a namespace must not stop the brokers of others.
 */
const CONCURRENCY = 8
/**
 * How long nodes that join or leave an Instance are gathered, in milliseconds: each write of it
 * wakes all agents.
 */
const GATHER_MEMBERSHIPS_MS = 500
/** How long problems of devices are gathered: each write of an Instance wakes all agents. */
const GATHER_PROBLEMS_MS = 1000
/**
 * How long the summary of changed Instances waits: each write of it wakes all agents. The report of
 * a node comes a quarter of a second after the Instance of a new device, and ends the wait.
 */
const GATHER_SUMMARIES_MS = 1000
/** How long changes of Pods are gathered: a roll-out looks at all brokers of a Configuration. */
const GATHER_ROLLOUTS_MS = 100

/**
 * Does the controller's work until the turn of this replica ends. A change of an object reconciles
 * everything that depends on the object. No state but that of the API server outlives a turn.
 */
export async function control(options: ControllerOptions, turn: AbortSignal): Promise<void> {
  const { state, client, clock, log, events, nodeGraceMs, metrics } = options
  // Each queue and each request adds a listener.
  setMaxListeners(0, turn)

  const queueOf = <Key extends ObjectKey | NodeName>(
    kind: ControlledKind,
    reconcile: (key: Key, signal: AbortSignal) => Promise<ReconcileResult>,
    { gatherMs = 0, groupOf, showFailure }: QueueOptions<Key> = {},
  ) => {
    const queue = new ReconcileQueue<Key>({
      clock,
      concurrency: CONCURRENCY,
      gatherMs,
      ...(groupOf && { groupOf }),
      reconcile: (key, signal) => {
        const work = () => reconcile(key, signal)
        return metrics === undefined ? work() : metrics.measure(kind, work)
      },
      onError(key, error, retryInMs) {
        // The writer of statuses has logged this error once for all objects.
        if (!OutdatedResourceError.is(error))
          log.warn({ kind, key, err: error, retryInMs: Math.round(retryInMs) }, 'reconcile failed')
        showFailure?.(key, error)
      },
    })
    metrics?.follow(kind, () => queue.depth, turn)
    return queue
  }
  const objectQueue = (
    kind: 'Configuration' | 'Instance',
    reconcile: (key: ObjectKey, signal: AbortSignal) => Promise<ReconcileResult>,
    gatherMs = 0,
  ) =>
    queueOf<ObjectKey>(kind, reconcile, {
      gatherMs,
      groupOf: namespaceOf,
      showFailure(key, error) {
        // An outage of the API server is no failure of the object.
        if (ApiUnreachableError.is(error)) return
        const { cache } = kind === 'Instance' ? state.instances : state.configurations
        events.record(
          {
            regarding: { kind, key },
            type: 'Warning',
            reason: kindOf(error) === 'bug' ? 'InternalError' : 'BrokerFailed',
            message: messageOf(error),
          },
          cache.get(key)?.metadata.uid,
        )
      },
    })

  const instanceStatus = new StatusWriter({
    kind: INSTANCES,
    collection: state.instances,
    clock,
    log,
  })
  const brokers = new InstanceBrokers({
    state,
    clock,
    log,
    status: instanceStatus,
    onRestart: (configuration) => metrics?.brokerRestarted(configuration),
  })
  const rollouts = new Rollouts({ state, clock, brokers })
  const failures = new BrokerFailures()
  const absent = new AbsentAgents({ state, clock, graceMs: nodeGraceMs })
  const lostNodes = new LostNodes({ ...options, absent, graceMs: nodeGraceMs }, turn)
  const nodes = queueOf<NodeName>('Node', (node, signal) => lostNodes.reconcile(node, signal))
  const addNode = (node: NodeName) => nodes.add(node)
  // A queue for each part: a Service that is refused must not hold up the brokers. Listeners only
  // add keys: an error there would end every watch, and not only the work on one object.
  const instances = [
    objectQueue('Instance', (key, signal) =>
      failures.watch('Instance', key, () => brokers.reconcile(key, signal)),
    ),
    objectQueue('Instance', (key, signal) => reconcileInstanceService(key, options, signal)),
    objectQueue('Instance', (key, signal) => lostNodes.reconcileInstance(key, addNode, signal)),
    objectQueue('Instance', (key) => reportHeldBrokers(key, options)),
    objectQueue('Instance', (key, signal) => labelInstance(key, options, signal)),
  ]
  const configurations = [
    objectQueue('Configuration', (key, signal) =>
      failures.watch('Configuration', key, () => reconcileDeployment(key, options, signal)),
    ),
    objectQueue('Configuration', (key, signal) =>
      reconcileConfigurationService(key, options, signal),
    ),
  ]
  const suspects = objectQueue('Configuration', (key) =>
    lostNodes.reconcileConfiguration(key, addNode),
  )
  const rolloutQueue = objectQueue(
    'Configuration',
    (key, signal) => rollouts.reconcile(key, signal),
    GATHER_ROLLOUTS_MS,
  )

  const addInstance = (key: ObjectKey) => {
    for (const queue of instances) queue.add(key)
  }
  const addConfiguration = (key: ObjectKey) => {
    for (const queue of configurations) queue.add(key)
  }
  state.onInstanceChange(addInstance, turn)
  state.onConfigurationChange(addConfiguration, turn)
  state.statuses.cache.onChange((key) => suspects.add(key), turn)
  for (const status of state.statuses.cache.list()) suspects.add(keyOf(status))
  const ownerKeyOf = (key: ObjectKey): ObjectKey[] => {
    const instance = state.instances.cache.get(key)
    return instance === undefined ? [] : [configurationOf(instance)]
  }
  state.onNodeChange((node, instancesOfNode) => {
    if (!state.isReady(node)) addNode(node)
    for (const key of instancesOfNode) addInstance(key)
    for (const key of instancesOfNode.flatMap(ownerKeyOf)) rolloutQueue.add(key)
  }, turn)
  state.onConfigurationChange((key) => rolloutQueue.add(key), turn)
  for (const instance of state.instances.cache.list()) addInstance(keyOf(instance))
  for (const configuration of state.configurations.cache.list()) {
    addConfiguration(keyOf(configuration))
    rolloutQueue.add(keyOf(configuration))
  }

  const refusedJobs = new RefusedJobs({ state, client, clock })
  const silent = new SilentAgents({ state, clock }, turn)
  const summaryWriter = new ConfigurationSummaries({
    ...options,
    failures,
    refusedJobs,
    silent,
    absent,
    rollouts,
    status: new StatusWriter({ kind: CONFIGURATIONS, collection: state.statuses, clock, log }),
  })
  const summaries = queueOf<ObjectKey>(
    'Configuration',
    (key, signal) => summaryWriter.reconcile(key, signal),
    { groupOf: namespaceOf },
  )
  const instanceProblems = new InstanceProblems({ state, clock, status: instanceStatus })
  const problems = queueOf<ObjectKey>(
    'Configuration',
    (key, signal) => instanceProblems.reconcile(key, signal),
    { gatherMs: GATHER_PROBLEMS_MS, groupOf: namespaceOf },
  )
  const leftReports = new LeftReports({ ...options, absent })
  const reports = queueOf<NodeName>('NodeReport', (node, signal) =>
    leftReports.reconcile(node, signal),
  )
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
  state.reportIndex.onUnreported(addSummaries, turn)
  const addSummaryOf = (instance: ObjectKey) => {
    for (const key of ownerKeyOf(instance)) summaries.add(key)
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
    for (const { metadata } of state.reports.cache.list()) addReport(metadata.name)
  })

  const memberships = new Memberships(options)
  const joins = queueOf<ObjectKey>(
    'Instance',
    (key, signal) => memberships.reconcile(key, signal),
    { gatherMs: GATHER_MEMBERSHIPS_MS, groupOf: namespaceOf },
  )
  const followReport = (key: ObjectKey) => {
    const report = state.reports.cache.get(key)
    const changed = memberships.follow(keyParts(key).name as NodeName, report?.memberships)
    for (const instance of changed) joins.add(instance)
  }
  state.reports.cache.onChange(followReport, turn)
  state.instances.cache.onChange((key) => {
    if (memberships.hasWishes(key)) joins.add(key)
  }, turn)
  state.reportIndex.onPresence((node) => {
    for (const instance of memberships.instancesOf(node)) joins.add(instance)
  }, turn)
  for (const report of state.reports.cache.list()) followReport(keyOf(report))

  const queues = [
    ...instances,
    ...configurations,
    rolloutQueue,
    suspects,
    nodes,
    summaries,
    problems,
    reports,
    joins,
  ]
  await Promise.all(queues.map((queue) => queue.run(turn)))
}

const namespaceOf = (key: ObjectKey) => keyParts(key).namespace
