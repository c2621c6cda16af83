import { setMaxListeners } from 'node:events'
import {
  API_VERSION,
  CONFIGURATIONS,
  type Compatibility,
  type Configuration,
  type DeviceProblem,
  INSTANCES,
  type Instance,
  type NodeStatus,
  type PodToEnd,
} from '@akrijs/api'
import {
  ApiError,
  EventRecorder,
  type NodeName,
  type ObjectEvent,
  type ObjectKey,
  objectKey,
  type Reflector,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import type { DiscoveryProperties } from '@akrijs/sdk/handler'
import { type InstanceStep, InstanceWrites, newInstance } from '../instances/instance-steps.js'
import { NodeReportWriter, type NodeReportWriterOptions } from '../report/node-report-writer.js'
import type { Cluster, DeviceUsage, InstanceDraft, SlotsInUse } from './cluster.js'
import { compareAndSwap } from './compare-and-swap.js'
import { MembershipRequests } from './membership-requests.js'
import { OwnNode } from './own-node.js'
import { resolveReferences } from './property-references.js'
import { PropertySources } from './property-sources.js'
import { WatchedConfigurations } from './watched-configurations.js'
import { WatchedInstances } from './watched-instances.js'

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
  readonly instances: Reflector<Instance>
  readonly configurations: Reflector<Configuration>
  readonly #options: KubernetesClusterOptions
  readonly #instances: WatchedInstances
  /** The nodes that report on each Configuration. */
  readonly #reporting: ReadonlyMap<ObjectKey, number>
  readonly #properties: PropertySources
  readonly #report: NodeReportWriter
  readonly #memberships: MembershipRequests
  readonly #ownNode: OwnNode
  readonly #events: EventRecorder
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
    const watched = (kind: ResourceKind) => {
      const path = new Resource(client, kind).path()
      const onError = (err: unknown, ms: number) =>
        log.warn({ path, err, retryInMs: Math.round(ms) }, 'watch of the API server failed')
      return { client, clock, log, path, onError }
    }
    this.#instances = new WatchedInstances({ ...watched(INSTANCES), node, answerMs })
    this.instances = this.#instances.cache
    const invalidChanged = () => this.#report.statusChanged()
    const configurations = new WatchedConfigurations({ ...watched(CONFIGURATIONS), invalidChanged })
    this.configurations = configurations.cache
    this.#reporting = configurations.reporting
    this.#ownNode = new OwnNode({ ...options, instances: this.instances }, signal)
    this.#properties = new PropertySources({ ...options, configurations: this.configurations })
    const knownNodes = () => this.knownNodes
    const wishes = () => this.#memberships.wishes
    const report = new NodeReportWriter({ ...options, configurations, knownNodes, wishes })
    this.#report = report
    const ofReport = { ...options, report, instances: this.instances, knownNodes }
    this.#memberships = new MembershipRequests(ofReport, signal)
    this.#events = new EventRecorder({
      ...{ client, clock, apiVersion: API_VERSION, source: 'akri-agent', host: node },
      onError: (error) => log.debug({ err: error }, 'Event not written'),
    })
    // An invalid Configuration asks for the number before the others are read.
    void this.configurations.synced.then(() => {
      this.#nodes = NOT_COUNTED
    })
  }

  /** Starts the watches. The caches resolve `synced` after their first list. */
  start(): void {
    const { signal } = this.#stop
    const { configurations } = this
    const parts = [this.#instances, configurations, this.#properties, this.#report, this.#events]
    this.#running = Promise.all(parts.map((part) => part.run(signal)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  get knownNodes(): number {
    const now = this.#options.clock.monotonicMs()
    if (now >= this.#nodes.until) {
      let most = 1
      for (const { spec } of this.instances.list()) most = Math.max(most, spec.nodes.length)
      for (const count of this.#reporting.values()) most = Math.max(most, count)
      this.#nodes = { most, until: now + COUNT_MS }
    }
    return this.#nodes.most
  }

  /** Milliseconds since the last answer of the API server, or since the start of the agent. */
  get silentForMs(): number {
    return this.instances.silentForMs
  }

  async createInstance(draft: InstanceDraft): Promise<'created' | 'exists'> {
    await this.#ownNode.ensureExists()
    try {
      const object = newInstance(draft, this.compatibility)
      this.instances.observe(await this.#instances.api.create(draft.namespace, object))
      return 'created'
    } catch (error) {
      if (!ApiError.is(error, 409)) throw error
      const key = objectKey(draft.namespace, draft.name)
      // No watch may show the Instance: it can have no labels, or be a local one of another node.
      if (this.instances.get(key) === undefined) await this.#instances.read(key)
      return 'exists'
    }
  }

  override async joinInstance(key: ObjectKey, node: NodeName, claims: DeviceUsage = {}) {
    await this.#ownNode.ensureExists()
    // Claims of running containers do not wait.
    const isUrgent = Object.keys(claims).length > 0
    if (this.#memberships.ask(key, 'join', isUrgent)) return 'asked'
    // Otherwise the controller releases the claims by an earlier wish to leave.
    if (isUrgent) await this.#report.leaveWithdrawn(key)
    return super.joinInstance(key, node, claims)
  }

  override async leaveInstance(key: ObjectKey, node: NodeName) {
    this.#ownNode.leaves(key)
    if (this.#memberships.ask(key, 'leave')) return 'asked'
    return super.leaveInstance(key, node)
  }

  stayInInstance(key: ObjectKey): void {
    this.#memberships.stay(key)
  }

  protected changeInstance<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T> {
    const { clock } = this.#options
    return compareAndSwap({ instances: this.#instances, clock }, key, decide)
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    const found = await new Resource(this.#options.client, CONFIGURATIONS).get(key)
    return this.configurations.observe(found)
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
