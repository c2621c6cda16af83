import { setMaxListeners } from 'node:events'
import type { Compatibility, Configuration } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { type Clock, Closer, type Logger } from '@akrijs/runtime'
import { HandlerAccess } from '../access/handler-access.js'
import { BrokerInfo } from '../broker-info/broker-info.js'
import type { Cluster } from '../cluster/cluster.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { Checkpoint } from '../discovery/checkpoint.js'
import type { AgeingOptions } from '../discovery/device-set.js'
import { Discovery } from '../discovery/discovery.js'
import { EmbeddedEndpoint, type EmbeddedHandler } from '../handlers/embedded-endpoint.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import type { HandlerAddresses } from '../handlers/registration-request.js'
import { RegistrationServer } from '../handlers/registration-server.js'
import { deviceRanks } from '../instances/device-ranks.js'
import { InstanceIndex } from '../instances/instance-index.js'
import { InstanceReconciler } from '../instances/instance-reconciler.js'
import { ResourceNames, type ResourceNamesOptions } from '../instances/resource-names.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { DeviceBounds } from '../limits.js'
import { DevicePlugins } from '../plugins/device-plugins.js'
import { type AgentObserver, noopObserver, type ReconciledKind } from '../report/observer.js'
import { StatusReporter } from '../report/status-reporter.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { SlotReconciler } from '../slots/slot-reconciler.js'
import { livenessCheck } from './liveness.js'
import { RememberedOffer, recallSlots, savedState } from './saved-state.js'

export interface AgentOptions extends Partial<AgeingOptions> {
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
  readonly resourceNames?: Pick<ResourceNamesOptions, 'read' | 'bounds'>
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

export type Agent = ReturnType<typeof runParts>

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
    return runParts(await startParts(options, closer, stop.signal), closer, stop)
  } catch (error) {
    await closer.close()
    throw error
  }
}

/**
 * The parts of an agent, in the order of their start, each with what it is given: the fields of
 * `shared`, and the parts that it is made of. They end in the reverse order.
 */
async function startParts(options: AgentOptions, closer: Closer, signal: AbortSignal) {
  const { cluster, node, observer = noopObserver } = options
  await Promise.all([cluster.configurations.synced, cluster.instances.synced])
  // The first listener to Instances: the others read the index.
  const instances = new InstanceIndex(cluster.instances, node, signal)
  const configurations = new AcceptedConfigurations(cluster.configurations, signal)
  const registry = new HandlerRegistry()
  const { checkpointFile: file, log } = options
  const checkpoint = new Checkpoint({ file, node, log, observer })
  const remembered = await checkpoint.load()
  const book = closer.own(new SlotBook(options))
  recallSlots(book, remembered)
  const ledger = book.allocations
  const shared = { ...options, signal, observer, instances, configurations, registry, book, ledger }

  const { brokerInfoDirectory: directory, resourceNames } = options
  const brokerInfo = directory ? closer.own(new BrokerInfo({ ...shared, directory })) : undefined
  const directories = options.offerBrokerInfo === false ? undefined : brokerInfo
  const claims = new SlotClaims({ ...shared, directories })
  const plugins = closer.own(new DevicePlugins({ ...shared, claims }))
  const offered = () => plugins.resources
  const names = resourceNames && new ResourceNames({ ...shared, ...resourceNames, offered })
  const slots = new SlotReconciler({ ...shared, claims, brokerInfo })
  await Promise.all([slots.begin(signal), names?.read()])
  // After the first answer of the kubelet: directories of running containers stay.
  brokerInfo?.start()

  const access = options.access ?? new HandlerAccess({ paths: new KernelDeviceNodes() })
  const rankDevices = (configuration: Configuration) =>
    deviceRanks(configuration, instances.of(keyOf(configuration)), node)
  const discovery = closer.own(new Discovery({ ...shared, access, rankDevices }))
  await discovery.restore(remembered.discovery)
  const state = savedState({ ...shared, checkpoint, discovery })
  const reconciled = (key: ObjectKey, failure: unknown): Promise<void> => {
    offer.tried(key)
    return status.report(key, failure)
  }
  const parts = { ...shared, discovery, plugins }
  const reconciler = new InstanceReconciler({ ...parts, names, reconciled })
  const status = new StatusReporter({ ...parts, reconciler })
  const all = configurations.list().map(keyOf)
  const withDevices = all.filter((key) => discovery.deviceSet(key).devices.size > 0)
  const offer = new RememberedOffer(withDevices, options.clock, signal)

  for (const handler of options.embedded)
    registry.register(new EmbeddedEndpoint(handler, options.log, offer.made))
  // Fails if another agent of this node runs: nothing may have touched its plugins by then.
  const sockets = closer.own(new Closer())
  const registration = await serveRegistrations(options, registry, sockets)
  const restored = registration.restore(remembered.handlers)
  return { ...parts, sockets, registration, restored, brokerInfo, slots, reconciler, state, offer }
}

type Parts = Awaited<ReturnType<typeof startParts>>

/** Runs the parts until the end of the agent. */
function runParts(parts: Parts, closer: Closer, stop: AbortController) {
  const { clock, log, node, signal, registry, discovery, plugins } = parts
  const { reconciler, slots, state, offer, registration } = parts
  discovery.start()
  const running = [reconciler.run(signal), slots.run(signal), parts.restored]
  closer.add(async () => {
    await parts.sockets.close()
    await state.save()
    // Slots of containers that ended just now are free before the next agent starts.
    await slots
      .reconcile(signal)
      .catch((error: unknown) => log.warn({ err: error }, 'last slot reconcile failed'))
    await state.save()
    stop.abort()
    await Promise.all(running)
  })
  const healthy = livenessCheck({ registration: registration.socket, plugins, clock, log })
  log.info({ node, handlers: registry.names }, 'agent started')
  return {
    registry,
    discovery,
    plugins,
    /** Resolves after the first offer of the devices in the checkpoint; after a second at most. */
    offered: offer.made,
    /** How many objects of the kind wait for a reconcile. */
    queued: (kind: ReconciledKind) => {
      const brokerInfo = parts.brokerInfo?.queued ?? 0
      const [Configuration, Claims] = [reconciler.queued, slots.queued]
      return { Configuration, Claims, BrokerInfo: brokerInfo }[kind]
    },
    /** Dials the agent's own sockets. @returns the problem; undefined if there is none */
    healthy,
    /** Ends everything. Instances stay as they are: their devices are still there. */
    close: () => closer.close(),
  }
}

/** Serves the socket for handlers in Pods, and a socket for handlers in processes of the agent. */
async function serveRegistrations(
  options: AgentOptions,
  registry: HandlerRegistry,
  sockets: Closer,
): Promise<RegistrationServer> {
  const { embedded, isolated, handlersDirectory, handlersGroup, handlerAddresses } = options
  const shared = { registry, clock: options.clock, log: options.log }
  const only = new Set(isolated?.names)
  const server = await RegistrationServer.open({
    ...{ ...shared, directory: handlersDirectory, group: handlersGroup },
    names: { allBut: new Set([...embedded.map(({ name }) => name), ...only]) },
    addresses: handlerAddresses,
  })
  sockets.own(server)
  if (isolated !== undefined) {
    const own = { ...shared, directory: isolated.directory, names: { only } }
    sockets.own(await RegistrationServer.open(own))
  }
  return server
}
