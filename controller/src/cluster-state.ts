import { setMaxListeners } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import {
  CONFIGURATIONS,
  type Configuration,
  ConfigurationNames,
  type ConfigurationSpec,
  configurationOf,
  finalizerNodes,
  INSTANCES,
  type Instance,
  type InstanceCondition,
  NODE_REPORTS,
  type NodeReport,
  nodesOf,
  packedConfiguration,
  parseConfigurationEntries,
  parseConfigurationObject,
  parseInstanceObject,
  parseNodeReport,
  withFinalizersOfAgents,
} from '@akrijs/api'
import {
  DEPLOYMENTS,
  JOBS,
  keyOf,
  keyParts,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  PODS,
  type ResourceKind,
  SERVICES,
} from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import { CacheIndex } from './cache-index.js'
import {
  type Collection,
  type CollectionOptions,
  type CollectionScope,
  collectionOf,
} from './collection.js'
import {
  type AppliedObject,
  type ClusterNode,
  type Deployment,
  type Job,
  type KubernetesObject,
  type Pod,
  parseAppliedObject,
  parseDeployment,
  parseJob,
  parseNode,
  parsePod,
  reducedApplied,
  reducedWorkload,
} from './kubernetes-objects.js'
import { AGENT_SELECTOR, CONTROLLER, LABELS } from './labels.js'
import { OwnedObjects } from './owned-objects.js'
import { hasLabel, isOwned } from './owners.js'
import { ReportIndex } from './reports/report-index.js'

/** What a Configuration asks of the controller. */
type WorkloadSpec = Pick<
  ConfigurationSpec,
  'brokerSpec' | 'instanceServiceSpec' | 'configurationServiceSpec'
>

/** What programs write of a Configuration, whether its spec is valid or not. */
export type StoredConfiguration = Pick<Configuration, 'metadata' | 'status'> & {
  /**
   * The Configuration with its last valid spec; undefined if no spec of it was valid. The object
   * stays while the spec and the deletion do: its status and its labels can be older.
   */
  readonly valid: Configuration | undefined
  /** The entries of `status.nodes` that make no sense. */
  readonly unreadableNodes: readonly string[]
  /** The conditions of other programs in the status. */
  readonly otherConditions: readonly InstanceCondition[]
}

interface ClusterStateOptions extends CollectionOptions {
  /** The namespace of the agents' Pods. */
  readonly agentNamespace: string
}

const WITH_LABEL = { labelSelector: `${LABELS.controller}=${CONTROLLER}` }

/** The objects of the API server that the controller needs: caches that watches keep current. */
export class ClusterState {
  readonly configurations: Collection<StoredConfiguration>
  readonly instances: Collection<Instance>
  /** The Instances that a node sees, or has claims of. */
  readonly instancesByNode: CacheIndex<Instance, NodeName>
  /** The Instances that name a Configuration. */
  readonly instancesByConfiguration: CacheIndex<Instance, ObjectKey>
  /** The objects with finalizers that name a node. */
  readonly finalized: {
    readonly instances: CacheIndex<Instance, NodeName>
    readonly configurations: CacheIndex<StoredConfiguration, NodeName>
  }
  /** Pods, Jobs, Services and Deployments that have the controller's label. */
  readonly pods: OwnedObjects<Pod>
  readonly jobs: OwnedObjects<Job>
  readonly services: OwnedObjects<AppliedObject>
  readonly deployments: OwnedObjects<Deployment>
  readonly nodes: Collection<ClusterNode>
  readonly reports: Collection<NodeReport>
  readonly reportIndex: ReportIndex
  /**
   * Resolves once all caches but those of reports have received all objects: an upgrade may have
   * left out the custom resource of reports, and brokers do not need it.
   */
  readonly synced: Promise<void>
  /** Resolves once reports, and all that they depend on, have been received. */
  readonly reportsSynced: Promise<void>
  readonly #agentPods: Collection<Pod>
  readonly #stop = new AbortController()
  readonly #names = new ConfigurationNames<Configuration>()
  /**
   * Called with Configurations whose spec changed, that are new, deleted or being deleted, or whose
   * name may have got another owner. A status does not matter: the controller writes it after a
   * refused broker, and would try the broker again at once.
   */
  readonly #specListeners = new Listeners<[configuration: ObjectKey]>()
  /** The Configurations at the last call of listeners. */
  readonly #told = new Map<ObjectKey, Configuration>()
  #running: Promise<unknown> = Promise.resolve()
  #hasReports = false

  constructor(options: ClusterStateOptions) {
    const { signal } = this.#stop
    // Each index and each watch adds a listener.
    setMaxListeners(0, signal)
    this.configurations = collectionOf(CONFIGURATIONS, parseConfiguration, options, {
      reduce: packedConfiguration,
    })
    this.configurations.cache.onChange((key) => {
      const others = this.#names.update(key, this.configuration(key))
      if (this.#hasNewSpec(key)) this.#specListeners.tell(key)
      for (const other of others) this.#specListeners.tell(keyOf(other))
    }, signal)
    this.instances = collectionOf<Instance>(INSTANCES, parseInstance, options)
    this.nodes = collectionOf<ClusterNode>(NODES, parseNode, options)
    const owned = <T extends KubernetesObject>(
      kind: ResourceKind,
      parse: (object: unknown, cached: T | undefined, now: number) => T | undefined,
      scope: CollectionScope = {},
    ) => {
      // An answer to a request can show an object that the watch leaves out.
      const parseLabelled: typeof parse = (object, cached, now) => {
        const parsed = parse(object, cached, now)
        return parsed && hasLabel(parsed) ? parsed : undefined
      }
      const collection = collectionOf(kind, parseLabelled, options, { ...WITH_LABEL, ...scope })
      return new OwnedObjects(collection, options.clock, signal)
    }
    this.pods = owned(PODS, parsePod, { reduce: reducedWorkload })
    this.jobs = owned(JOBS, parseJob, { reduce: reducedWorkload })
    this.services = owned(SERVICES, parseAppliedObject, { reduce: reducedApplied })
    this.deployments = owned(DEPLOYMENTS, parseDeployment, { reduce: reducedApplied })
    this.instancesByNode = new CacheIndex(this.instances.cache, nodesOf, signal)
    this.instancesByConfiguration = new CacheIndex(this.instances.cache, configurationOf, signal)
    this.finalized = {
      instances: new CacheIndex(this.instances.cache, finalizerNodes, signal),
      configurations: new CacheIndex(this.configurations.cache, finalizerNodes, signal),
    }
    this.reports = collectionOf<NodeReport>(NODE_REPORTS, parseNodeReport, options)
    const { agentNamespace } = options
    this.#agentPods = collectionOf<Pod>(PODS, parsePod, options, {
      labelSelector: AGENT_SELECTOR,
      namespace: agentNamespace,
      reduce: reducedWorkload,
    })
    const caches = { nodes: this.nodes.cache, agentPods: this.#agentPods.cache, agentNamespace }
    this.reportIndex = new ReportIndex({ ...caches, reports: this.reports.cache }, signal)
    this.synced = allSynced(this.#caches())
    this.reportsSynced = Promise.all([this.synced, allSynced(this.#reportCaches())]).then(() => {
      this.#hasReports = true
    })
  }

  start(): void {
    const caches = [...this.#caches(), ...this.#reportCaches()]
    this.#running = Promise.all(caches.map((cache) => cache.run(this.#stop.signal)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Whether `reportsSynced` has resolved. */
  get hasReports(): boolean {
    return this.#hasReports
  }

  /** Milliseconds since the last answer of the API server, or since the start of the program. */
  get silentForMs(): number {
    return this.instances.cache.silentForMs
  }

  isReady(node: NodeName): boolean {
    return this.nodes.cache.get(objectKey('', node))?.ready === true
  }

  /** The Configuration with its last valid spec. */
  configuration(key: ObjectKey): Configuration | undefined {
    return this.configurations.cache.get(key)?.valid
  }

  /** The Configuration that owns the Instance, and not only has the name of the owner. */
  ownerOf(instance: Instance): Configuration | undefined {
    const configuration = this.configuration(configurationOf(instance))
    return configuration && isOwned(instance, 'Configuration', configuration)
      ? configuration
      : undefined
  }

  /**
   * The brokers and Services of a Configuration. It has none while its name belongs to an older
   * Configuration: Pods that ask for the resource would get devices of that Configuration.
   */
  workloadSpec(configuration: Configuration): WorkloadSpec {
    return this.#names.rival(configuration) === undefined ? configuration.spec : {}
  }

  /**
   * The Pods with the label of a Configuration that exists in their namespace, and has a right to
   * its name. Any user can write any label: a label alone must not add a series to the metrics, nor
   * a Configuration count as an older one of its name. A target node that does not exist is left
   * out.
   */
  podsOfConfigurations(): Pod[] {
    return this.pods.cache.list().flatMap((pod) => {
      const { metadata, targetNode = '' } = pod
      const name = metadata.labels?.[LABELS.configuration] ?? ''
      const configuration = this.configuration(objectKey(metadata.namespace, name))
      const isCounted =
        configuration !== undefined && this.#names.rival(configuration) === undefined
      const hasNode = this.nodes.cache.get(objectKey('', targetNode)) !== undefined
      return isCounted ? { ...pod, targetNode: hasNode ? pod.targetNode : undefined } : []
    })
  }

  /** The Instances that a Configuration owns, and that not only have its name. */
  ownInstancesOf(key: ObjectKey, configuration: Pick<Configuration, 'metadata'>): Instance[] {
    return this.instancesByConfiguration
      .get(key)
      .filter((instance) => isOwned(instance, 'Configuration', configuration))
  }

  /**
   * Calls back with an Instance after it, the spec of its Configuration or an object of the
   * Instance changed, and after the name of its Configuration may have got another owner.
   */
  onInstanceChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.instances.cache.onChange(listener, signal)
    // By name: so a roll-out goes on.
    const ofConfiguration = (key: ObjectKey) => {
      for (const instance of this.instancesByConfiguration.get(key).map(keyOf).sort())
        listener(instance)
    }
    this.#specListeners.add(ofConfiguration, signal)
    for (const objects of this.#owned()) objects.onChangeOf('Instance', listener, signal)
  }

  /**
   * Calls back with a Configuration after its spec, an Instance or another object of it changed,
   * and after its name may have got another owner.
   */
  onConfigurationChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#specListeners.add(listener, signal)
    this.instancesByConfiguration.onChange(listener, signal)
    for (const objects of this.#owned()) objects.onChangeOf('Configuration', listener, signal)
  }

  /** Calls back with a Configuration after the spec or an object of its brokers changed. */
  onBrokersChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#specListeners.add(listener, signal)
    for (const objects of [this.pods, this.jobs, this.deployments])
      objects.onChangeOf('Configuration', listener, signal)
  }

  /**
   * Calls back with a node, and with the Instances that the node sees, after the node was added or
   * removed, or a change decides whether Pods can run there.
   */
  onNodeChange(
    listener: (node: NodeName, instances: readonly ObjectKey[]) => void,
    signal: AbortSignal,
  ): void {
    this.nodes.cache.onChange((key) => {
      const name = keyParts(key).name as NodeName
      const instances = this.instancesByNode
        .get(name)
        .filter(({ spec }) => spec.nodes.includes(name))
      listener(name, instances.map(keyOf))
    }, signal)
  }

  /** Whether the Configuration has changed since the last call of listeners, without the status. */
  #hasNewSpec(key: ObjectKey): boolean {
    const before = this.#told.get(key)
    const now = this.configuration(key)
    if (now === undefined) this.#told.delete(key)
    else this.#told.set(key, now)
    return before !== now
  }

  #owned() {
    return [this.pods, this.jobs, this.services, this.deployments]
  }

  #caches() {
    const collections = [this.configurations, this.instances, this.nodes, ...this.#owned()]
    return collections.map(({ cache }) => cache)
  }

  #reportCaches() {
    return [this.reports, this.#agentPods].map(({ cache }) => cache)
  }
}

async function allSynced(caches: readonly { readonly synced: Promise<void> }[]): Promise<void> {
  await Promise.all(caches.map(({ synced }) => synced))
}

function parseConfiguration(
  object: unknown,
  cached: StoredConfiguration | undefined,
): StoredConfiguration | undefined {
  const entries = parseConfigurationEntries(object)
  if (entries === undefined) return undefined
  const stored = withFinalizersOfAgents(entries, object)
  const parsed = parseConfigurationObject(object)
  const before = cached?.metadata.uid === stored.metadata.uid ? cached.valid : undefined
  // The agents report an invalid spec in the status. The last valid spec stays in force.
  const found = parsed.ok ? parsed.configuration : before
  const valid = found && { ...found, metadata: stored.metadata }
  // Most events are of the status, and bring the spec once more.
  const isSame = before && valid && isDeepStrictEqual(desiredOf(before), desiredOf(valid))
  return { ...stored, valid: isSame ? before : valid }
}

/** The parts of a Configuration that the workloads depend on, except its name. */
function desiredOf({ metadata: { generation, deletionTimestamp }, spec }: Configuration): unknown {
  return [generation, deletionTimestamp, spec]
}

function parseInstance(object: unknown): Instance | undefined {
  const parsed = parseInstanceObject(object)
  return parsed && withFinalizersOfAgents(parsed, object)
}
