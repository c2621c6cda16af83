import {
  API_VERSION,
  CONFIGURATIONS,
  type Configuration,
  configurationOf,
  INSTANCES,
  type Instance,
  type NodeStatus,
  type Problem,
  parseConfigurationObject,
  parseInstanceObject,
  type SlotName,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  EventRecorder,
  keyOf,
  type NodeName,
  type ObjectEvent,
  type ObjectKey,
  Reflector,
  Resource,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { DiscoveryProperties } from '@akrijs/runtime/handler'
import { AcceptedConfigurations } from '../core/accepted-configurations.js'
import { resolveReferences } from '../core/discovery/property-references.js'
import {
  brokerInfoStep,
  claimStep,
  joinStep,
  leaveStep,
  newInstance,
  releaseStep,
  updateStep,
} from '../core/instances/instance-steps.js'
import type {
  BrokerReports,
  Cluster,
  DeviceUsage,
  InstanceChange,
  InstanceDraft,
  ObjectCache,
} from '../ports/cluster.js'
import { InstanceWriter } from './instance-writer.js'
import { PropertySources } from './property-sources.js'
import { StatusWriter } from './status-writer.js'

interface KubernetesClusterOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
}

/** The cluster of an API server. */
export class KubernetesCluster implements Cluster {
  readonly instances: ObjectCache<Instance>
  readonly configurations: ObjectCache<Configuration>
  readonly #options: KubernetesClusterOptions
  readonly #instanceApi: Resource
  readonly #configurationApi: Resource
  readonly #writer: InstanceWriter
  readonly #instances: Reflector<Instance>
  readonly #configurations: Reflector<Configuration>
  readonly #properties: PropertySources
  readonly #statuses: StatusWriter
  readonly #events: EventRecorder
  readonly #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  /**
   * @param limits for tests on a slow API server. `answerMs`: the time limit of one answer for a
   * change of an Instance, in milliseconds, as the kubelet waits for a claim
   */
  constructor(options: KubernetesClusterOptions, { answerMs = 10_000 } = {}) {
    const { client, clock, log } = options
    this.#options = options
    this.#instanceApi = new Resource(client, INSTANCES)
    this.#configurationApi = new Resource(client, CONFIGURATIONS)
    const watched = (api: Resource) => ({
      client,
      clock,
      path: api.path(),
      onError: (error: unknown, retryInMs: number) =>
        log.warn(
          { path: api.path(), err: error, retryInMs: Math.round(retryInMs) },
          'watch of the API server failed',
        ),
    })
    this.#instances = new Reflector({
      ...watched(this.#instanceApi),
      parse: (object) => parseInstanceObject(object),
    })
    this.#configurations = new Reflector({
      ...watched(this.#configurationApi),
      parse: (object, known) => this.#parseConfiguration(object, known),
    })
    this.instances = this.#instances
    this.configurations = this.#configurations
    this.#properties = new PropertySources({
      ...options,
      configurations: new AcceptedConfigurations(this.#configurations, this.#stop.signal),
    })
    this.#statuses = new StatusWriter({
      ...options,
      configurations: this.#configurations,
      instances: this.#instances,
      api: this.#configurationApi,
    })
    this.#writer = new InstanceWriter({
      ...options,
      answerMs,
      api: this.#instanceApi,
      cache: this.#instances,
      onWritten: (instance) => this.#statuses.changed(configurationOf(instance)),
    })
    this.#events = new EventRecorder({
      client,
      clock,
      apiVersion: API_VERSION,
      onError: (error) => log.debug({ err: error }, 'Event not written'),
      source: 'akri-agent',
      host: options.node,
    })
  }

  /** Starts the watches. The caches resolve `synced` after their first list. */
  start(): void {
    const { signal } = this.#stop
    this.#running = Promise.all([
      this.#instances.run(signal),
      this.#configurations.run(signal),
      this.#properties.run(signal),
      this.#statuses.run(signal),
      this.#events.run(signal),
    ])
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Milliseconds since the last answer of the API server; undefined before the first answer. */
  get silentForMs(): number | undefined {
    const last = this.#instances.lastContact
    return last === undefined ? undefined : this.#options.clock.monotonicMs() - last
  }

  async createInstance(draft: InstanceDraft): Promise<'created' | 'exists'> {
    try {
      this.#writer.wrote(await this.#instanceApi.create(draft.namespace, newInstance(draft)))
      return 'created'
    } catch (error) {
      if (ApiError.is(error, 409)) return 'exists'
      throw error
    }
  }

  joinInstance(key: ObjectKey, node: NodeName, claims?: DeviceUsage) {
    return this.#writer.change(key, (instance) => joinStep(instance, node, claims))
  }

  leaveInstance(key: ObjectKey, node: NodeName) {
    return this.#writer.change(key, (instance) => leaveStep(instance, node))
  }

  updateInstance(key: ObjectKey, fields: InstanceChange) {
    return this.#writer.change(key, (instance) => updateStep(instance, fields))
  }

  claimSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.#writer.change(key, (instance) =>
      claimStep(instance, slot, usage, { inUse: false }),
    )
  }

  restoreSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.#writer.change(key, (instance) => claimStep(instance, slot, usage, { inUse: true }))
  }

  releaseSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.#writer.change(key, (instance) => releaseStep(instance, slot, usage))
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    const found = await this.#configurationApi.get(key)
    return found === undefined ? undefined : this.#configurations.observe(found)
  }

  reportBrokerInfo(key: ObjectKey, node: NodeName, reports: BrokerReports) {
    return this.#writer.change(key, (instance) => brokerInfoStep(instance, node, reports))
  }

  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties> {
    return resolveReferences(configuration, (reference) =>
      this.#properties.look(configuration, reference),
    )
  }

  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#properties.onChange(listener, signal)
  }

  async reportStatus(key: ObjectKey, _node: NodeName, status: NodeStatus): Promise<void> {
    this.#statuses.report(key, status)
  }

  recordEvent(event: ObjectEvent): void {
    const objects = event.regarding.kind === 'Instance' ? this.instances : this.configurations
    this.#events.record(event, objects.get(event.regarding.key)?.metadata.uid)
  }

  /**
   * An invalid Configuration keeps its last valid version, and its status names the problem. A
   * Configuration that was deleted has left nothing to the next of its name.
   */
  #parseConfiguration(
    object: unknown,
    known: Configuration | undefined,
  ): Configuration | undefined {
    const parsed = parseConfigurationObject(object)
    if (parsed.ok) {
      this.#statuses.valid(parsed.configuration)
      return parsed.configuration
    }
    if (parsed.found === undefined) return known
    const { metadata, status } = parsed.found
    this.#options.log.warn(
      { configuration: keyOf({ metadata }), problems: parsed.problems.map(textOf) },
      'configuration refused',
    )
    this.#statuses.invalid(
      { metadata, ...(status === undefined ? {} : { status }) },
      parsed.problems.map(textOf).join('; '),
    )
    return known?.metadata.uid === metadata.uid ? known : undefined
  }
}

function textOf({ path, message }: Problem): string {
  return path === '' ? message : `${path}: ${message}`
}
