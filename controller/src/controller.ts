import { setMaxListeners } from 'node:events'
import {
  type ApiClient,
  ApiUnreachableError,
  type EventRecorder,
  keyOf,
  type NodeName,
  type ObjectKey,
  ReconcileQueue,
  type ReconcileResult,
} from '@akrijs/kube'
import { type Clock, kindOf, type Logger, messageOf } from '@akrijs/runtime'
import { reconcileDeployment } from './brokers/configuration-deployment.js'
import { reportHeldBrokers } from './brokers/held-brokers.js'
import { InstanceBrokers } from './brokers/instance-brokers.js'
import type { ClusterState } from './cluster-state.js'
import { LostNodes } from './nodes/lost-nodes.js'
import {
  reconcileConfigurationService,
  reconcileInstanceService,
} from './services/broker-services.js'

interface ControllerOptions {
  /** A state that has been started. */
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly events: Pick<EventRecorder, 'record'>
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly nodeGraceMs: number
}

/** How many objects each queue reconciles at once. */
const CONCURRENCY = 8

/**
 * Does the controller's work until the turn of this replica ends. A change of an object reconciles
 * everything that depends on the object. No state but that of the API server outlives a turn.
 */
export async function control(options: ControllerOptions, turn: AbortSignal): Promise<void> {
  const { state, client, clock, log, events, nodeGraceMs } = options
  // Each queue and each request adds a listener.
  setMaxListeners(0, turn)

  const queueOf = <Key extends ObjectKey | NodeName>(
    kind: string,
    reconcile: (key: Key, signal: AbortSignal) => Promise<ReconcileResult>,
    showFailure?: (key: Key, error: unknown) => void,
  ) =>
    new ReconcileQueue<Key>({
      clock,
      concurrency: CONCURRENCY,
      reconcile,
      onError(key, error, retryInMs) {
        const retry = retryInMs === undefined ? {} : { retryInMs: Math.round(retryInMs) }
        log.warn({ kind, key, err: error, ...retry }, 'reconcile failed')
        showFailure?.(key, error)
      },
    })
  const objectQueue = (
    kind: 'Configuration' | 'Instance',
    reconcile: (key: ObjectKey, signal: AbortSignal) => Promise<ReconcileResult>,
  ) =>
    queueOf<ObjectKey>(kind, reconcile, (key, error) => {
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
    })

  const brokers = new InstanceBrokers({ state, clock, log })
  const lostNodes = new LostNodes({ state, client, clock, log, graceMs: nodeGraceMs })
  const nodes = queueOf<NodeName>('Node', (node, signal) => lostNodes.reconcile(node, signal))
  const addNode = (node: NodeName) => nodes.add(node)
  // A queue for each part: a Service that is refused must not hold up the brokers. Listeners only
  // add keys: an error there would end every watch, and not only the work on one object.
  const instances = [
    objectQueue('Instance', (key, signal) => brokers.reconcile(key, signal)),
    objectQueue('Instance', (key, signal) => reconcileInstanceService(key, options, signal)),
    objectQueue('Instance', (key, signal) => lostNodes.reconcileInstance(key, addNode, signal)),
    objectQueue('Instance', (key) => reportHeldBrokers(key, options)),
  ]
  const configurations = [
    objectQueue('Configuration', (key, signal) => reconcileDeployment(key, options, signal)),
    objectQueue('Configuration', (key, signal) =>
      reconcileConfigurationService(key, options, signal),
    ),
    objectQueue('Configuration', (key) => lostNodes.reconcileConfiguration(key, addNode)),
  ]

  const addInstance = (key: ObjectKey) => {
    for (const queue of instances) queue.add(key)
  }
  const addConfiguration = (key: ObjectKey) => {
    for (const queue of configurations) queue.add(key)
  }
  state.onInstanceChange(addInstance, turn)
  state.onConfigurationChange(addConfiguration, turn)
  state.onNodeChange((node, instancesOfNode) => {
    if (!state.isReady(node)) addNode(node)
    for (const key of instancesOfNode) addInstance(key)
  }, turn)
  for (const instance of state.instances.cache.list()) addInstance(keyOf(instance))
  for (const configuration of state.configurations.cache.list())
    addConfiguration(keyOf(configuration))
  await Promise.all([...instances, ...configurations, nodes].map((queue) => queue.run(turn)))
}
