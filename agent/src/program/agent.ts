import { setMaxListeners } from 'node:events'
import { type Compatibility, type Configuration, instanceNameParts } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue } from '@akrijs/kube/queue'
import { type Clock, Closer, type Logger } from '@akrijs/runtime'
import { HandlerAccess } from '../access/handler-access.js'
import { BrokerInfo } from '../broker-info/broker-info.js'
import type { Cluster } from '../cluster/cluster.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { Checkpoint, type CheckpointContent } from '../discovery/checkpoint.js'
import type { AgeingOptions } from '../discovery/device-ageing.js'
import { Discovery } from '../discovery/discovery.js'
import { RememberedOffer } from '../discovery/remembered-offer.js'
import { EmbeddedEndpoint, type EmbeddedHandler } from '../handlers/embedded-endpoint.js'
import type { HandlerAddresses } from '../handlers/handler-addresses.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import { type RegistrationServer, serveRegistration } from '../handlers/registration-server.js'
import { rememberedHandlers } from '../handlers/remembered-handlers.js'
import { deviceRanks } from '../instances/device-ranks.js'
import { InstanceIndex } from '../instances/instance-index.js'
import { InstanceReconciler } from '../instances/instance-reconciler.js'
import { ResourceNames, type ResourceNamesOptions } from '../instances/resource-names.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { DeviceBounds, ResourceNameBounds } from '../limits.js'
import { DevicePlugins } from '../plugins/device-plugins.js'
import { type AgentObserver, noopObserver, type ReconciledKind } from '../report/observer.js'
import { StatusReporter } from '../report/status-reporter.js'
import { instanceOf } from '../slots/allocation-ledger.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { SlotReconciler } from '../slots/slot-reconciler.js'
import { Liveness } from './liveness.js'

interface AgentOptions extends Partial<AgeingOptions> {
  readonly cluster: Cluster
  readonly kubelet: Kubelet
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  /** The directory that the agent shares with handlers. */
  readonly handlersDirectory: string
  /** The group of handlers that are not root. @default handlers have the user of the agent */
  readonly handlersGroup?: number | undefined
  readonly checkpointFile: string
  /**
   * The directory of the directories in which brokers report: an absolute path, the same path for
   * the kubelet.
   * @default brokers cannot report
   */
  readonly brokerInfoDirectory?: string
  /** Whether new containers get a directory. @default true */
  readonly offerBrokerInfo?: boolean
  /** What handlers may give to containers. @default without rules of an operator */
  readonly access?: HandlerAccess
  /** Handlers that run in this process. */
  readonly embedded: readonly EmbeddedHandler[]
  /** How many devices are served. @default DEVICE_BOUNDS */
  readonly bounds?: DeviceBounds
  /**
   * Handlers that the agent loads, in processes of their own. They register in a directory of their
   * own, where no other program can register under their names.
   * @default none
   */
  readonly isolated?: { readonly names: readonly string[]; readonly directory: string }
  /** The network addresses at which handlers may serve. @default none */
  readonly handlerAddresses?: HandlerAddresses
  /** The names of resources on the Node. @default there is no Node */
  readonly resourceNames?: ResourceNameBounds & Pick<ResourceNamesOptions, 'read'>
  /** A claim without a container is released after so many milliseconds. @default 20000 */
  readonly slotGraceMs?: number
  /**
   * A slot that another node frees is reserved for that node so many milliseconds. @default 15000
   */
  readonly slotHandoverMs?: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility
  /** @default none */
  readonly observer?: AgentObserver
}

export interface Agent {
  readonly registry: HandlerRegistry
  readonly discovery: Discovery
  readonly plugins: DevicePlugins
  /** Resolves after the first offer of the devices in the checkpoint; after a second at most. */
  readonly offered: Promise<void>
  /**
   * Resolves when all current changes have been reconciled. Retries that are due later do not
   * count.
   */
  settled(): Promise<void>
  /** How many objects of the kind wait for a reconcile. */
  queued(kind: ReconciledKind): number
  /** Dials the agent's own sockets. @returns the problem; undefined if there is none */
  healthy(): Promise<string | undefined>
  /** Ends everything. Instances stay as they are: their devices are still there. */
  close(): Promise<void>
}

/**
 * A change waits so many milliseconds for further changes before its reconcile. Requests of the
 * kubelet have the processor first.
 */
const GATHER_MS = 10

/** Starts the agent of one node: from Configurations to Instances and device plugins. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { log } = options
  const closer = new Closer()
  const stop = new AbortController()
  // Each part listens to the signal, and Node.js would warn of a leak.
  setMaxListeners(0, stop.signal)
  closer.add(() => log.info({}, 'agent stopped'))
  closer.add(() => stop.abort())
  try {
    return await startParts(options, closer, stop)
  } catch (error) {
    await closer.close()
    throw error
  }
}

async function startParts(
  options: AgentOptions,
  closer: Closer,
  stop: AbortController,
): Promise<Agent> {
  const { cluster, kubelet, clock, log, node, observer = noopObserver } = options
  const { signal } = stop
  await Promise.all([cluster.configurations.synced, cluster.instances.synced])

  // The first listener to Instances: the others read the index.
  const instances = new InstanceIndex(cluster.instances, node, signal)
  const checkpoint = new Checkpoint(options.checkpointFile, node, log, observer)
  const remembered = await checkpoint.load()
  const { slotHandoverMs } = options
  const book = new SlotBook({ cluster, node, kubelet, clock, slotHandoverMs })
  closer.add(() => book.close())
  const ledger = book.allocations
  const shared = { cluster, instances, kubelet, clock, log, node, observer, ledger, book }
  for (const allocation of remembered.given) ledger.record(allocation)

  const { brokerInfoDirectory, offerBrokerInfo = true } = options
  const brokerInfo =
    brokerInfoDirectory === undefined
      ? undefined
      : new BrokerInfo({ ...shared, directory: brokerInfoDirectory })
  const directories = offerBrokerInfo ? brokerInfo : undefined
  const claims = new SlotClaims({ ...shared, directories })
  const plugins = new DevicePlugins({
    ...shared,
    claims,
    directories,
    compatibility: options.compatibility,
  })
  // The first lists have the ids of lost devices too.
  for (const { slot, lost } of remembered.given) {
    const { configuration } = instanceNameParts(instanceOf(slot)) ?? {}
    if (lost && configuration !== undefined) book.lose(configuration, instanceOf(slot))
  }
  const { resourceNames } = options
  const names =
    resourceNames &&
    new ResourceNames({
      ...shared,
      read: resourceNames.read,
      bounds: resourceNames,
      offered: () => plugins.resources,
    })
  const namesRead = names?.read()
  const slots = new SlotReconciler({
    ...shared,
    claims,
    isLost: (instance) => book.isLost(instance),
    slotsUsed: (used) => cluster.reportSlots(used),
    ...(brokerInfo && { beforeRelease: (key, slot) => brokerInfo.flush(key, slot) }),
    ...(options.slotGraceMs !== undefined && { graceMs: options.slotGraceMs }),
  })
  await slots.begin(signal)
  // After the first answer of the kubelet: directories of running containers stay.
  await brokerInfo?.start()
  closer.add(() => brokerInfo?.close())
  closer.add(() => plugins.close())

  const configurations = new AcceptedConfigurations(cluster.configurations, signal)
  const registry = new HandlerRegistry()
  const access = options.access ?? new HandlerAccess({ paths: new KernelDeviceNodes() })
  const discovery = new Discovery({
    ...options,
    configurations,
    registry,
    access,
    observer,
    rankDevices: (configuration) =>
      deviceRanks({ configuration, node, instances: instances.of(keyOf(configuration)) }),
  })
  await discovery.restore(remembered.discovery)
  closer.add(() => discovery.close())
  await namesRead
  const reconciler = new InstanceReconciler({
    ...shared,
    configurations,
    plugins,
    names,
    bounds: options.bounds,
    signal,
    deviceSet: (key) => discovery.deviceSet(key),
    deviceLost: (device) => {
      slots.deviceLost(device)
      saveSoon('given')
    },
  })
  const status = new StatusReporter({ ...shared, configurations, discovery, reconciler, plugins })
  const of = configurations.list().filter(hasDevicesIn(remembered)).map(keyOf)
  const offer = new RememberedOffer({ of, clock, signal })
  const queue = new ReconcileQueue<ObjectKey>({
    clock,
    gatherMs: GATHER_MS,
    async reconcile(key) {
      let failure: unknown
      try {
        return await observer.reconciling('Configuration', () => reconciler.reconcile(key))
      } catch (error) {
        failure = error
        throw error
      } finally {
        offer.tried(key)
        await status.report(key, failure)
      }
    },
    onError: (configuration, error, retryInMs) =>
      log.warn({ configuration, err: error, retryInMs }, 'reconcile failed'),
  })
  const isolated = new Set(options.isolated?.names)
  const state = (): CheckpointContent => ({
    discovery: discovery.snapshot(),
    given: ledger.list().map((each) => {
      return book.isLost(instanceOf(each.slot)) ? { ...each, lost: true } : each
    }),
    handlers: rememberedHandlers(registry, isolated),
  })
  const saveSoon = (changed: keyof CheckpointContent) =>
    checkpoint.saveSoon(state, changed, { clock, signal })
  ledger.onChange(() => saveSoon('given'), signal)
  registry.onChange(() => saveSoon('handlers'), signal)
  discovery.onChange((key) => {
    // A device is offered at once. What else changes then is gathered.
    queue.add(key, reconciler.isBehind(key) ? 0 : GATHER_MS)
    saveSoon('discovery')
  }, signal)
  configurations.onChange((key) => queue.add(key), signal)
  reconciler.onChange((configuration) => queue.add(configuration), signal)
  plugins.onRegistrationChange((configuration) => queue.add(configuration), signal)
  book.onLossOver((name) => {
    for (const { metadata } of configurations.list())
      if (metadata.name === name) queue.add(keyOf({ metadata }))
  }, signal)

  for (const handler of options.embedded)
    registry.register(new EmbeddedEndpoint(handler, log, offer.made))
  // Fails if another agent of this node runs: nothing may have touched its plugins by then.
  const registration = await serveRegistrations(options, registry)
  const restored = registration.restore(remembered.handlers)
  discovery.start()
  // Configurations that are not accepted too: their status names the reason.
  for (const configuration of cluster.configurations.list()) queue.add(keyOf(configuration))
  const running = [queue.run(signal), slots.run(signal), restored]
  closer.add(async () => {
    await checkpoint.save(state)
    // Slots of containers that ended just now are free before the next agent starts.
    await slots
      .reconcile(node, signal)
      .catch((error: unknown) => log.warn({ err: error }, 'last slot reconcile failed'))
    await checkpoint.save(state)
    stop.abort()
    await Promise.all(running)
  })

  closer.add(() => registration.close())
  const { socket } = registration
  const liveness = new Liveness({ registration: socket, plugins: () => plugins.served, clock, log })
  const depths: Readonly<Record<ReconciledKind, () => number>> = {
    Configuration: () => queue.depth,
    Claims: () => slots.queued,
    BrokerInfo: () => brokerInfo?.queued ?? 0,
  }
  log.info({ node, handlers: registry.names }, 'agent started')
  return {
    registry,
    discovery,
    plugins,
    offered: offer.made,
    settled: () => queue.settled(),
    queued: (kind) => depths[kind](),
    healthy: () => liveness.problem(),
    close: () => closer.close(),
  }
}

const NO_ADDRESSES: HandlerAddresses = { holderOf: () => undefined }

/** Serves the socket for handlers in Pods, and a socket for handlers in processes of the agent. */
async function serveRegistrations(
  {
    embedded,
    isolated,
    handlersDirectory: directory,
    handlersGroup: group,
    handlerAddresses,
    clock,
    log,
  }: AgentOptions,
  registry: HandlerRegistry,
): Promise<RegistrationServer> {
  const only = new Set(isolated?.names)
  const allBut = new Set([...embedded.map(({ name }) => name), ...only])
  const addresses = handlerAddresses ?? NO_ADDRESSES
  const server = await serveRegistration({
    directory,
    group,
    names: { allBut },
    addresses,
    registry,
    clock,
    log,
  })
  if (isolated === undefined) return server
  const other = await serveRegistration({
    directory: isolated.directory,
    names: { only },
    addresses: NO_ADDRESSES,
    registry,
    clock,
    log,
  }).catch(async (error: unknown) => {
    await server.close()
    throw error
  })
  const close = async () => void (await Promise.all([server.close(), other.close()]))
  // The agent starts isolated handlers again.
  return { ...server, close }
}

/** Whether the checkpoint has devices of a Configuration. */
function hasDevicesIn({ discovery }: CheckpointContent): (configuration: Configuration) => boolean {
  return (configuration) => {
    const written = discovery[keyOf(configuration)]
    return (
      written?.uid === configuration.metadata.uid &&
      written.lists.some(({ devices = [] }) => devices.length > 0)
    )
  }
}
