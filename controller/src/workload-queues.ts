import type { Instance } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, type ReconcileQueue } from '@akrijs/kube'
import type { BrokerFailures } from './brokers/broker-failures.js'
import { reconcileDeployment } from './brokers/configuration-deployment.js'
import { reportHeldBrokers } from './brokers/held-brokers.js'
import { type BrokerOptions, reconcileBrokers } from './brokers/reconcile-brokers.js'
import { Rollouts } from './brokers/rollouts.js'
import type { FirstSights } from './first-sights.js'
import { labelInstance } from './instance-labels.js'
import { LostNodes } from './nodes/lost-nodes.js'
import {
  reconcileConfigurationService,
  reconcileInstanceService,
} from './services/broker-services.js'
import type { StatusWriter } from './status-writer.js'
import type { ControllerOptions, WorkQueues } from './work-queues.js'

interface WorkloadQueuesOptions extends ControllerOptions {
  readonly sights: FirstSights
  readonly failures: BrokerFailures
  readonly instanceStatus: StatusWriter<Instance>
}

interface Workloads {
  readonly rollouts: Rollouts
  /** The queue of nodes that may be lost. */
  readonly nodes: ReconcileQueue<NodeName>
}

/** How long changes of Pods are gathered: a roll-out looks at all brokers of a Configuration. */
const GATHER_ROLLOUTS_MS = 100

/**
 * Queues the work on brokers, Services, Deployments, labels of Instances and lost nodes after each
 * change of what it depends on. Listeners only add keys: an error there would end every watch, and
 * not only the work on one object.
 */
export function queueWorkloads(
  options: WorkloadQueuesOptions,
  queues: WorkQueues,
  turn: AbortSignal,
): Workloads {
  const { state, metrics, failures, nodeGraceMs } = options
  const rollouts = new Rollouts({ ...options, wake: (instance) => brokerQueue.add(instance) })
  const brokers: BrokerOptions = {
    ...options,
    status: options.instanceStatus,
    permits: (...update) => rollouts.permits(...update),
    onRestart: (configuration) => metrics?.brokerRestarted(configuration),
  }
  const lostNodes = new LostNodes({ ...options, graceMs: nodeGraceMs }, turn)
  const nodes = queues.queueOf<NodeName>('Node', (node, signal) =>
    lostNodes.reconcile(node, signal),
  )
  const addNode = (node: NodeName) => nodes.add(node)
  const brokerQueue: ReconcileQueue<ObjectKey> = queues.objectQueue('Instance', (key, signal) =>
    failures.watch('Instance', key, () => reconcileBrokers(key, brokers, signal)),
  )
  const instances = [
    brokerQueue,
    queues.objectQueue('Instance', (key, signal) => reconcileInstanceService(key, options, signal)),
    queues.objectQueue('Instance', (key, signal) =>
      lostNodes.reconcileInstance(key, addNode, signal),
    ),
    queues.objectQueue('Instance', (key) => reportHeldBrokers(key, options)),
    queues.objectQueue('Instance', (key, signal) => labelInstance(key, options, signal)),
  ]
  const configurations = [
    queues.objectQueue('Configuration', (key, signal) =>
      failures.watch('Configuration', key, () => reconcileDeployment(key, options, signal)),
    ),
    queues.objectQueue('Configuration', (key, signal) =>
      reconcileConfigurationService(key, options, signal),
    ),
  ]
  const suspects = queues.objectQueue('Configuration', (key) =>
    lostNodes.reconcileConfiguration(key, addNode),
  )
  const rolloutQueue = queues.objectQueue(
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
  state.onNodeChange((node, instancesOfNode) => {
    if (!state.isReady(node)) addNode(node)
    for (const key of instancesOfNode) addInstance(key)
    for (const key of instancesOfNode)
      for (const owner of state.ownerKeysOf(key)) rolloutQueue.add(owner)
  }, turn)
  state.onConfigurationChange((key) => rolloutQueue.add(key), turn)
  for (const instance of state.instances.cache.list()) addInstance(keyOf(instance))
  for (const configuration of state.configurations.cache.list()) {
    addConfiguration(keyOf(configuration))
    rolloutQueue.add(keyOf(configuration))
  }
  return { rollouts, nodes }
}
