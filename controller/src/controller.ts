import { setMaxListeners } from 'node:events'
import type { Configuration, Instance } from '@akrijs/api'
import {
  type ApiClient,
  ApiUnreachableError,
  type EventRecorder,
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  ReconcileQueue,
} from '@akrijs/kube'
import { type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { ConfigurationDeployment } from './brokers/configuration-deployment.js'
import { InstanceBrokers } from './brokers/instance-brokers.js'
import type { ClusterState } from './cluster-state.js'
import { GoneNodes, markersOf, nodesOf, reportersOf } from './nodes/gone-nodes.js'
import { BrokerServices } from './services/broker-services.js'

export interface ControllerOptions {
  /** Has been started. */
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly events: Pick<EventRecorder, 'record'>
  /** How long a node may be silent before it counts as gone, in milliseconds. @default 300000 */
  readonly nodeGraceMs?: number
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/** How many objects are worked at at once. */
const CONCURRENCY = 8
/** The longest that nothing is looked at again, in milliseconds. Times that others write may be far ahead; a timer ends at once then. */
const MAX_WAIT_MS = 3_600_000

/**
 * Does the controller's work until its turn ends: whenever something changes, what it concerns is looked at as a whole, and
 * brought to where it should be. Nothing is kept from one turn to the next that the API server does not have.
 */
export async function control(options: ControllerOptions, turn: AbortSignal): Promise<void> {
  const { state, client, clock, log, events, random = Math.random } = options
  // Each part and each request listens.
  setMaxListeners(0, turn)
  const own = { state, clock, log, signal: turn }
  const brokers = new InstanceBrokers(own)
  const deployments = new ConfigurationDeployment(own)
  const services = new BrokerServices(own)
  const goneNodes = new GoneNodes({
    ...own,
    client,
    ...(options.nodeGraceMs === undefined ? {} : { graceMs: options.nodeGraceMs }),
  })

  // One queue for each part: what cannot be made must not hold up the rest.
  const queue = <Key extends ObjectKey | NodeName>(
    kind: 'Configuration' | 'Instance' | 'Node',
    work: (key: Key) => Promise<number | undefined>,
  ) =>
    new ReconcileQueue<Key>({
      clock,
      random,
      concurrency: CONCURRENCY,
      async reconcile(key) {
        const lookAgainAt = await work(key)
        if (lookAgainAt === undefined) return {}
        return { requeueAfterMs: Math.min(MAX_WAIT_MS, Math.max(0, lookAgainAt - clock.wallMs())) }
      },
      onError(key, error, retryInMs) {
        const retry = retryInMs === undefined ? {} : { retryInMs: Math.round(retryInMs) }
        log.warn({ kind, key, err: error, ...retry }, 'cannot be brought to where it should be')
        if (kind !== 'Node' && !(error instanceof ApiUnreachableError))
          tell(kind, key as string as ObjectKey, error)
      },
    })
  const tell = (kind: 'Configuration' | 'Instance', key: ObjectKey, error: unknown) => {
    const object = (kind === 'Instance' ? state.instances : state.configurations).cache.get(key)
    const event = {
      regarding: { kind, key },
      type: 'Warning',
      reason: 'BrokerFailed',
      message: messageOf(error),
    } as const
    events.record(event, object?.metadata.uid)
  }
  const instances = [
    queue<ObjectKey>('Instance', (key) => brokers.reconcile(key)),
    queue<ObjectKey>('Instance', (key) => services.reconcileInstance(key)),
    queue<ObjectKey>('Instance', (key) => goneNodes.removeUnseen(key)),
  ]
  const configurations = [
    queue<ObjectKey>('Configuration', (key) => deployments.reconcile(key)),
    queue<ObjectKey>('Configuration', (key) => services.reconcileConfiguration(key)),
  ]
  const nodes = queue<NodeName>('Node', (node) => goneNodes.reconcile(node))

  /** Nodes that stand somewhere and may have gone. */
  const suspect = (names: Iterable<NodeName>) => {
    for (const name of names)
      if (state.nodes.cache.get(objectKey('', name))?.ready !== true) nodes.add(name)
  }
  /** Also nodes that are there may have left something that nobody takes away. */
  const finalize = (object: Configuration | Instance) => {
    if (object.metadata.deletionTimestamp !== undefined)
      for (const name of markersOf(object)) nodes.add(name)
  }
  const instanceChanged = (key: ObjectKey) => {
    for (const one of instances) one.add(key)
    const instance = state.instances.cache.get(key)
    if (instance === undefined) return
    suspect([...nodesOf(instance), ...markersOf(instance)])
    finalize(instance)
  }
  const configurationChanged = (key: ObjectKey) => {
    for (const one of configurations) one.add(key)
    const configuration = state.configurations.cache.get(key)
    if (configuration === undefined) return
    suspect([...markersOf(configuration), ...reportersOf(configuration)])
    finalize(configuration)
  }
  state.onInstanceChange(instanceChanged, turn)
  state.onConfigurationChange(configurationChanged, turn)
  state.onNodeChange((node, seenBy) => {
    suspect([node])
    for (const key of seenBy) instanceChanged(key)
  }, turn)
  for (const instance of state.instances.cache.list()) instanceChanged(keyOf(instance))
  for (const configuration of state.configurations.cache.list())
    configurationChanged(keyOf(configuration))
  await Promise.all([...instances, ...configurations, nodes].map((one) => one.run(turn)))
}
