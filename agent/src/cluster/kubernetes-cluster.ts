import { setMaxListeners } from 'node:events'
import {
  API_VERSION,
  CONFIGURATIONS,
  type Compatibility,
  type Configuration,
  type DeviceProblem,
  INSTANCES,
  type Instance,
  isShownAsShared,
  isShownByNode,
  type NodeStatus,
  nodeSelector,
  type PodToEnd,
  parseInstanceObject,
  SHARED_SELECTOR,
} from '@akrijs/api'
import {
  ApiError,
  EventRecorder,
  type NodeName,
  type ObjectEvent,
  type ObjectKey,
  objectKey,
  Reflector,
  Resource,
} from '@akrijs/kube'
import type { DiscoveryProperties } from '@akrijs/sdk/handler'
import { type InstanceStep, InstanceWrites, newInstance } from '../instances/instance-steps.js'
import { NodeReportWriter, type NodeReportWriterOptions } from '../report/node-report-writer.js'
import type { Cluster, DeviceUsage, InstanceDraft, ObjectCache, SlotsInUse } from './cluster.js'
import { CompareAndSwap } from './compare-and-swap.js'
import { MembershipRequests } from './membership-requests.js'
import { OwnNode } from './own-node.js'
import { resolveReferences } from './property-references.js'
import { PropertySources } from './property-sources.js'
import { StrayInstances } from './stray-instances.js'
import { WatchedConfigurations } from './watched-configurations.js'

interface KubernetesClusterOptions
  extends Omit<NodeReportWriterOptions, 'configurations' | 'knownNodes' | 'wishes'> {
  /** The other system whose agents read the Instances too. @default off */
  readonly compatibility?: Compatibility
}

/** Between two counts of the nodes, in milliseconds at least: a count looks at all objects. */
const COUNT_MS = 1000
const NOT_COUNTED = { most: 1, until: Number.NEGATIVE_INFINITY }

/** The cluster of an API server. */
export class KubernetesCluster extends InstanceWrites implements Cluster {
  readonly instances: ObjectCache<Instance>
  readonly configurations: ObjectCache<Configuration>
  readonly #options: KubernetesClusterOptions
  readonly #instanceApi: Resource
  readonly #instances: Reflector<Instance>
  readonly #configurations: WatchedConfigurations
  readonly #writer: CompareAndSwap
  readonly #properties: PropertySources
  readonly #report: NodeReportWriter
  readonly #memberships: MembershipRequests
  readonly #ownNode: OwnNode
  readonly #events: EventRecorder
  /** What runs from the start to the end, in this order. */
  readonly #parts: readonly { run(signal: AbortSignal): Promise<unknown> }[]
  readonly #stop = new AbortController()
  #nodes = NOT_COUNTED
  #running: Promise<unknown> = Promise.resolve()

  /**
   * @param limits for tests on a slow API server. `answerMs`: the time limit of one answer for a
   * change of an Instance, in milliseconds, as the kubelet waits for a claim
   */
  constructor(options: KubernetesClusterOptions, { answerMs = 10_000 } = {}) {
    super(options.compatibility)
    const { client, clock, log, node } = options
    this.#options = options
    const { signal } = this.#stop
    // Each part listens to the signal.
    setMaxListeners(0, signal)
    this.#instanceApi = new Resource(client, INSTANCES)
    const watched = (path: string) => ({
      client,
      clock,
      path,
      onError: (err: unknown, ms: number) =>
        log.warn({ path, err, retryInMs: Math.round(ms) }, 'watch of the API server failed'),
    })
    const instances = new Reflector<Instance>({
      ...watched(this.#instanceApi.path()),
      parts: [
        {
          query: { labelSelector: nodeSelector(node) },
          has: (instance) => isShownByNode(instance, node),
        },
        {
          query: { labelSelector: SHARED_SELECTOR },
          has: (instance) => !isShownByNode(instance, node) && isShownAsShared(instance),
        },
      ],
      parse: parseInstanceObject,
    })
    this.#instances = instances
    const configurations = new WatchedConfigurations({
      ...watched(new Resource(client, CONFIGURATIONS).path()),
      log,
      invalidChanged: () => this.#report.statusChanged(),
    })
    this.#configurations = configurations
    this.configurations = configurations.cache
    const ofInstances = { ...options, api: this.#instanceApi, cache: instances }
    this.#ownNode = new OwnNode({ ...options, instances }, signal)
    this.#writer = new CompareAndSwap({ ...ofInstances, answerMs })
    const strays = new StrayInstances({ ...ofInstances, writer: this.#writer })
    // The cache has the objects of the watches, and those that the watches do not show.
    this.instances = {
      synced: Promise.all([instances.synced, strays.listed]).then(() => undefined),
      get: (key) => instances.get(key),
      list: () => instances.list(),
      onChange: (listener, until) => instances.onChange(listener, until),
    }
    this.#properties = new PropertySources({ ...options, configurations: this.configurations })
    const knownNodes = () => this.knownNodes
    const wishes = () => this.#memberships.wishes
    const report = new NodeReportWriter({ ...options, configurations, knownNodes, wishes })
    const ofReport = { ...options, report, instances, knownNodes }
    this.#report = report
    this.#memberships = new MembershipRequests(ofReport, signal)
    this.#events = new EventRecorder({
      client,
      clock,
      apiVersion: API_VERSION,
      onError: (error) => log.debug({ err: error }, 'Event not written'),
      source: 'akri-agent',
      host: node,
    })
    const { cache } = configurations
    // An invalid Configuration asks for the number before the others are read.
    void cache.synced.then(() => {
      this.#nodes = NOT_COUNTED
    })
    this.#parts = [instances, strays, cache, this.#properties, report, this.#events]
  }

  /** Starts the watches. The caches resolve `synced` after their first list. */
  start(): void {
    this.#running = Promise.all(this.#parts.map((part) => part.run(this.#stop.signal)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  get knownNodes(): number {
    const now = this.#options.clock.monotonicMs()
    if (now >= this.#nodes.until) {
      const joined = this.#instances.list().map(({ spec }) => spec.nodes.length)
      const counts = [...joined, ...this.#configurations.reporting.values()]
      const most = counts.reduce((before, count) => Math.max(before, count), 1)
      this.#nodes = { most, until: now + COUNT_MS }
    }
    return this.#nodes.most
  }

  /** Milliseconds since the last answer of the API server, or since the start of the agent. */
  get silentForMs(): number {
    return this.#instances.silentForMs
  }

  async createInstance(draft: InstanceDraft): Promise<'created' | 'exists'> {
    await this.#ownNode.ensureExists()
    try {
      const object = newInstance(draft, this.compatibility)
      this.#writer.wrote(await this.#instanceApi.create(draft.namespace, object))
      return 'created'
    } catch (error) {
      if (!ApiError.is(error, 409)) throw error
      const key = objectKey(draft.namespace, draft.name)
      // No watch may show the Instance: it can have no labels, or be a local one of another node.
      if (this.#instances.get(key) === undefined) await this.#writer.read(key)
      return 'exists'
    }
  }

  override async joinInstance(key: ObjectKey, node: NodeName, claims: DeviceUsage = {}) {
    await this.#ownNode.ensureExists()
    const instance = this.instances.get(key)
    // Claims of running containers do not wait.
    const isUrgent = Object.keys(claims).length > 0
    if (
      instance?.metadata.deletionTimestamp === undefined &&
      instance?.spec.nodes.includes(node) === false &&
      this.#memberships.ask(instance, 'join', isUrgent)
    )
      return 'asked'
    // Otherwise the controller releases the claims by an earlier wish to leave.
    if (isUrgent) await this.#report.leaveWithdrawn(key)
    return super.joinInstance(key, node, claims)
  }

  override async leaveInstance(key: ObjectKey, node: NodeName) {
    this.#ownNode.leaves(key)
    const instance = this.instances.get(key)
    const hasOthers = instance?.spec.nodes.some((other) => other !== node) === true
    // The last node deletes the Instance itself.
    if (instance?.spec.nodes.includes(node) && this.#memberships.ask(instance, 'leave', !hasOthers))
      return 'asked'
    return super.leaveInstance(key, node)
  }

  stayInInstance(key: ObjectKey): void {
    this.#memberships.stay(key)
  }

  protected changeInstance<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T> {
    return this.#writer.change(key, decide)
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    const found = await new Resource(this.#options.client, CONFIGURATIONS).get(key)
    return found === undefined ? undefined : this.#configurations.cache.observe(found)
  }

  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties> {
    return resolveReferences(configuration, (reference) =>
      this.#properties.look(configuration, reference),
    )
  }

  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#properties.onChange(listener, signal)
  }

  async reportStatus(
    key: ObjectKey,
    _node: NodeName,
    status: NodeStatus,
    problems?: readonly DeviceProblem[],
  ): Promise<void> {
    this.#report.report(key, status, problems)
  }

  reportSlots(slots: SlotsInUse): void {
    this.#report.reportSlots(slots)
  }

  reportPodsToEnd(pods: ReadonlyMap<ObjectKey, PodToEnd>): void {
    this.#report.reportPodsToEnd(pods)
  }

  recordEvent(event: ObjectEvent): void {
    const { kind, key } = event.regarding
    const instance = kind === 'Instance' ? this.instances.get(key) : undefined
    const configuration = kind === 'Configuration' ? this.configurations.get(key) : undefined
    this.#events.record(event, (instance ?? configuration)?.metadata.uid)
  }
}
