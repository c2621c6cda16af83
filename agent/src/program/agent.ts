import { configurationOf, type NodeStatus } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, ReconcileQueue } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { BrokerInfo } from '../broker-info/broker-info.js'
import { AcceptedConfigurations } from '../core/accepted-configurations.js'
import type { AgeingOptions } from '../core/discovery/device-ageing.js'
import { Discovery } from '../core/discovery/discovery.js'
import { HandlerRegistry } from '../core/discovery/handler-registry.js'
import { RememberedOffer } from '../core/discovery/remembered-offer.js'
import { InstanceReconciler } from '../core/instances/instance-reconciler.js'
import { AllocationLedger } from '../core/slots/allocation-ledger.js'
import { SlotReconciler } from '../core/slots/slot-reconciler.js'
import { nodeStatus, refusedStatus } from '../core/status/node-status.js'
import { StatusEvents } from '../core/status/status-events.js'
import { Checkpoint } from '../node/checkpoint.js'
import { DevicePlugins } from '../node/device-plugins/device-plugins.js'
import { EmbeddedEndpoint, type EmbeddedHandler } from '../node/handlers/embedded-endpoint.js'
import { serveRegistration } from '../node/handlers/registration-server.js'
import { Liveness } from '../node/liveness.js'
import type { Cluster } from '../ports/cluster.js'
import type { Kubelet } from '../ports/kubelet.js'
import { type AgentObserver, noopObserver } from '../ports/observer.js'

export interface AgentOptions extends Partial<AgeingOptions> {
  readonly cluster: Cluster
  readonly kubelet: Kubelet
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  /** The directory that is shared with handlers. */
  readonly handlersDirectory: string
  /** Where the checkpoint is kept. */
  readonly checkpointFile: string
  /**
   * Where the directories are by which workloads report: an absolute path, the same one for whoever mounts them into
   * containers. @default workloads get none
   */
  readonly brokerInfoDirectory?: string
  /** Whether workloads that start from now on get one. @default true */
  readonly offerBrokerInfo?: boolean
  /** Handlers to be run in this process. */
  readonly embedded: readonly EmbeddedHandler[]
  /** How long no container may have a slot before it is taken back, in milliseconds. @default 20000 */
  readonly slotGraceMs?: number
  /** How long a slot that another node frees is left to that node, in milliseconds. @default 15000 */
  readonly slotHandoverMs?: number
  /** @default nobody */
  readonly observer?: AgentObserver
}

export interface Agent {
  readonly registry: HandlerRegistry
  readonly discovery: Discovery
  readonly plugins: DevicePlugins
  /** Resolves when what is known now has been brought about; retries that are due later do not count. */
  settled(): Promise<void>
  /** Dials the agent's own sockets. @returns which one does not answer, undefined if none */
  healthy(): Promise<string | undefined>
  /** Ends everything. Instances stay as they are: their devices are still there. */
  close(): Promise<void>
}

/**
 * What is to be done about a change waits so long, in milliseconds: more may change at once, and what the kubelet waits for has
 * the processor first.
 */
const GATHER_MS = 10

/** Starts the agent of one node: from Configurations to Instances and device plugins. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { cluster, kubelet, clock, log, node, observer = noopObserver } = options
  const stop = new AbortController()
  const registry = new HandlerRegistry()
  const configurations = new AcceptedConfigurations(cluster.configurations)
  const discovery = new Discovery({ ...options, configurations, registry, observer })
  const { brokerInfoDirectory: directory, offerBrokerInfo = true } = options
  const ledger = new AllocationLedger({ node, pods: kubelet.pods })
  const brokerInfo =
    directory === undefined
      ? undefined
      : new BrokerInfo({ cluster, node, clock, log, directory, ledger })
  const plugins = new DevicePlugins({
    cluster,
    kubelet,
    node,
    clock,
    log,
    observer,
    ledger,
    directories: offerBrokerInfo ? brokerInfo : undefined,
    slotHandoverMs: options.slotHandoverMs,
  })
  const deviceSet = (key: ObjectKey) => discovery.deviceSet(key)
  const reconciler = new InstanceReconciler({
    cluster,
    configurations,
    plugins,
    ledger,
    node,
    clock,
    log,
    deviceSet,
  })
  const checkpoint = new Checkpoint(options.checkpointFile, node, log)
  const slots = new SlotReconciler({
    cluster,
    kubelet,
    node,
    clock,
    log,
    claims: plugins.claims,
    ledger,
    observer,
    ...(brokerInfo === undefined
      ? {}
      : { beforeRelease: (key, slot) => brokerInfo.flush(key, slot) }),
    ...(options.slotGraceMs === undefined ? {} : { graceMs: options.slotGraceMs }),
  })

  const events = new StatusEvents(cluster)
  const queue = new ReconcileQueue<ObjectKey>({
    clock,
    gatherMs: GATHER_MS,
    async reconcile(key) {
      try {
        return await reconciler.reconcile(key)
      } finally {
        offer.tried(key)
        await reportStatus(key)
      }
    },
    onError: (configuration, error, retryInMs) =>
      log.warn({ configuration, err: error, retryInMs }, 'reconcile failed'),
  })

  async function reportStatus(key: ObjectKey): Promise<void> {
    const rival = configurations.rival(key)
    if (rival !== undefined)
      return report(key, refusedStatus(cluster.configurations.get(key), rival))
    const configuration = configurations.get(key)
    const status = discovery.status(key)
    if (configuration === undefined || status === undefined) return events.forget(key)
    const instances = cluster.instances
      .list()
      .filter((one) => configurationOf(one) === key && one.spec.nodes.includes(node))
    const devices = discovery.deviceSet(key)
    const collisions = reconciler.collisions(key)
    await report(
      key,
      nodeStatus({ configuration, discovery: status, devices, collisions, instances }),
    )
  }

  async function report(key: ObjectKey, status: NodeStatus): Promise<void> {
    events.follow(key, status)
    await cluster.reportStatus(key, node, status)
  }

  await Promise.all([cluster.configurations.synced, cluster.instances.synced])
  const remembered = await checkpoint.load()
  discovery.restore(remembered.discovery)
  for (const one of remembered.given) ledger.record(one)
  await slots.begin(stop.signal)
  // After that: what its workload still uses is not to be dropped.
  await brokerInfo?.start()
  const save = () =>
    checkpoint.save(() => ({ discovery: discovery.snapshot(), given: ledger.list() }))
  ledger.onChange(() => void save(), stop.signal)
  discovery.onChange((key) => {
    queue.add(key)
    void save()
  }, stop.signal)
  configurations.onChange((key) => queue.add(key), stop.signal)
  cluster.instances.onChange((key) => {
    const instance = cluster.instances.get(key)
    // Of an Instance that is gone only the name is left, which begins with its Configuration's.
    queue.add(
      instance === undefined
        ? (key.slice(0, key.lastIndexOf('-')) as ObjectKey)
        : configurationOf(instance),
    )
  }, stop.signal)

  const rememberedOf = configurations.list().filter((configuration) => {
    const known = remembered.discovery[keyOf(configuration)]
    return (
      known?.uid === configuration.metadata.uid &&
      known.lists.some(({ devices = [] }) => devices.length > 0)
    )
  })
  const offer = new RememberedOffer({ of: rememberedOf.map(keyOf), clock, signal: stop.signal })
  for (const handler of options.embedded)
    registry.register(new EmbeddedEndpoint(handler, log, offer.made))
  const registration = await serveRegistration({
    directory: options.handlersDirectory,
    registry,
    log,
  })
  const liveness = new Liveness({
    registration: registration.socket,
    plugins: () => plugins.served,
    clock,
    log,
  })
  discovery.start()
  // Also those that are not in force: their status says why.
  for (const configuration of cluster.configurations.list()) queue.add(keyOf(configuration))
  const running = [queue.run(stop.signal), slots.run(stop.signal)]
  log.info({ node, handlers: registry.names }, 'agent started')

  return {
    registry,
    discovery,
    plugins,
    settled: () => queue.settled(),
    healthy: () => liveness.problem(),
    async close() {
      await registration.close()
      await save()
      // What ended just before us is not to be found only by the agent after us.
      await slots
        .reconcile(node, stop.signal)
        .catch((err: unknown) => log.warn({ err }, 'last slot reconcile failed'))
      await save()
      stop.abort()
      await discovery.close()
      await Promise.all(running)
      await plugins.close()
      await brokerInfo?.close()
      log.info({}, 'agent stopped')
    },
  }
}
