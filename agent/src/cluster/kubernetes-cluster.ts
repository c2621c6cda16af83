import {
  API_VERSION,
  CONFIGURATIONS,
  type Configuration,
  claimPatch,
  configurationOf,
  freeAmong,
  INSTANCES,
  type Instance,
  isFull,
  joinPatch,
  leavePatch,
  type NodeStatus,
  type Problem,
  parseConfigurationObject,
  parseInstanceObject,
  releasePatch,
  resizedUsage,
  type SlotName,
  slotIndex,
  updatePatch,
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
import { isEmpty, planBrokerInfo } from '../core/broker-info/broker-info-plan.js'
import { resolveReferences } from '../core/discovery/property-references.js'
import type {
  BrokerReports,
  Cluster,
  DeviceUsage,
  InstanceChange,
  InstanceDraft,
  ObjectCache,
  SlotClaim,
} from '../ports/cluster.js'
import { brokerInfoPatch } from './broker-info-patch.js'
import { InstanceWriter, outdated } from './instance-writer.js'
import { PropertySources } from './property-sources.js'
import { StatusWriter } from './status-writer.js'

interface KubernetesClusterOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /**
   * The time limit of one answer for a change of an Instance, in milliseconds: the kubelet waits
   * for a claim. @default 10000
   */
  readonly answerMs?: number
}

/** The cluster of an API server. */
export class KubernetesCluster implements Cluster {
  readonly instances: ObjectCache<Instance>
  readonly configurations: ObjectCache<Configuration>
  readonly #options: Required<KubernetesClusterOptions>
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

  constructor(options: KubernetesClusterOptions) {
    const { client, clock, log } = options
    this.#options = { random: Math.random, answerMs: 10_000, ...options }
    const { random } = this.#options
    this.#instanceApi = new Resource(client, INSTANCES)
    const onError = (path: string) => (error: unknown, retryInMs: number) =>
      log.warn(
        { path, err: error, retryInMs: Math.round(retryInMs) },
        'watch of the API server failed',
      )
    this.#configurationApi = new Resource(client, CONFIGURATIONS)
    this.#instances = new Reflector({
      client,
      clock,
      random,
      path: this.#instanceApi.path(),
      parse: (object) => parseInstanceObject(object),
      onError: onError(this.#instanceApi.path()),
    })
    this.#configurations = new Reflector({
      client,
      clock,
      random,
      path: this.#configurationApi.path(),
      parse: (object, known) => this.#parseConfiguration(object, known),
      onError: onError(this.#configurationApi.path()),
    })
    this.instances = this.#instances
    this.configurations = this.#configurations
    this.#properties = new PropertySources({
      ...this.#options,
      configurations: this.#configurations,
    })
    this.#statuses = new StatusWriter({
      ...this.#options,
      configurations: this.#configurations,
      instances: this.#instances,
      api: this.#configurationApi,
    })
    this.#writer = new InstanceWriter({
      ...this.#options,
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

  async createInstance({
    name,
    namespace,
    annotations,
    owner,
    spec,
  }: InstanceDraft): Promise<'created' | 'exists'> {
    try {
      const created = await this.#instanceApi.create(namespace, {
        apiVersion: API_VERSION,
        kind: 'Instance',
        metadata: {
          name,
          namespace,
          annotations,
          ownerReferences: [
            {
              apiVersion: API_VERSION,
              kind: 'Configuration',
              name: owner.metadata.name,
              uid: owner.metadata.uid,
              controller: true,
            },
          ],
        },
        spec: { ...spec, deviceUsage: resizedUsage(name, spec.capacity, spec.deviceUsage) },
      })
      this.#writer.wrote(created)
      return 'created'
    } catch (error) {
      if (ApiError.is(error, 409)) return 'exists'
      throw error
    }
  }

  joinInstance(
    key: ObjectKey,
    node: NodeName,
    claims: DeviceUsage = {},
  ): Promise<'joined' | 'already-joined' | 'gone'> {
    return this.#writer.change(key, (instance) => {
      // A node that joins an Instance under deletion would lose it.
      if (instance === undefined || instance.metadata.deletionTimestamp !== undefined)
        return { done: 'gone' }
      if (instance.spec.nodes.includes(node)) return { done: 'already-joined' }
      const claiming = freeAmong(instance, claims).flatMap(([slot, usage]) =>
        claimPatch(instance, slot, usage),
      )
      return { patch: [...joinPatch(node), ...claiming], result: 'joined' }
    })
  }

  leaveInstance(key: ObjectKey, node: NodeName): Promise<'left' | 'deleted' | 'gone'> {
    return this.#writer.change(key, (instance) => {
      if (instance === undefined || !instance.spec.nodes.includes(node)) return { done: 'gone' }
      if (instance.spec.nodes.length === 1) return { remove: instance, result: 'deleted' }
      return { patch: leavePatch(instance, node), result: 'left' }
    })
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    const found = await this.#configurationApi.get(key)
    return found === undefined ? undefined : this.#configurations.observe(found)
  }

  updateInstance(key: ObjectKey, change: InstanceChange): Promise<'updated' | 'gone'> {
    return this.#writer.change(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      const fields = { brokerProperties: instance.spec.brokerProperties, ...change }
      if (isAlready(instance, fields)) return { done: 'updated' }
      return { patch: updatePatch(instance, fields), result: 'updated' }
    })
  }

  claimSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim> {
    return this.#claim(key, slot, usage, { inUse: false })
  }

  restoreSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim> {
    return this.#claim(key, slot, usage, { inUse: true })
  }

  releaseSlot(
    key: ObjectKey,
    slot: SlotName,
    usage: string,
  ): Promise<'released' | 'changed' | 'gone'> {
    return this.#writer.change(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      if (instance.spec.deviceUsage[slot] !== usage || usage === '') return { done: 'changed' }
      return { patch: releasePatch(instance, slot, usage), result: 'released' }
    })
  }

  async reportBrokerInfo(
    key: ObjectKey,
    node: NodeName,
    reports: BrokerReports,
  ): Promise<'reported' | 'gone'> {
    const outcome = await this.#writer.change<'reported' | 'written' | 'gone'>(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      const plan = planBrokerInfo(instance, node, reports)
      if (isEmpty(plan)) return { done: 'reported' }
      return { patch: brokerInfoPatch(instance, plan), subresource: 'status', result: 'written' }
    })
    if (outcome !== 'written') return outcome
    // A server drops fields that its schema does not have, without an error.
    const now = this.instances.get(key)
    if (now !== undefined && now.status?.brokerInfoSlots === undefined) throw outdated()
    return 'reported'
  }

  resolveProperties(configuration: Configuration): Promise<DiscoveryProperties> {
    return resolveReferences(configuration, (reference) => this.#properties.look(reference))
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

  /** An invalid Configuration keeps its last valid version, and its status names the problem. */
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
    return known
  }

  /** @param inUse whether a container has the slot already, so that the capacity does not matter */
  #claim(
    key: ObjectKey,
    slot: SlotName,
    usage: string,
    { inUse }: { readonly inUse: boolean },
  ): Promise<SlotClaim> {
    return this.#writer.change<SlotClaim>(key, (instance) => {
      const index = instance && slotIndex(instance.metadata.name, slot)
      if (instance === undefined || index === undefined) return { done: { outcome: 'gone' } }
      if (!inUse && index >= instance.spec.capacity) return { done: { outcome: 'gone' } }
      const holder = instance.spec.deviceUsage[slot] ?? ''
      if (holder !== '') return { done: { outcome: 'taken', by: holder } }
      if (!inUse && isFull(instance)) return { done: { outcome: 'gone' } }
      return { patch: claimPatch(instance, slot, usage), result: { outcome: 'claimed' } }
    })
  }
}

function isAlready(
  instance: Instance,
  { capacity, brokerProperties }: Pick<Instance['spec'], 'capacity' | 'brokerProperties'>,
) {
  const { spec, metadata } = instance
  const wanted = Object.keys(resizedUsage(metadata.name, capacity, spec.deviceUsage))
    .sort()
    .join()
  const names = Object.keys(brokerProperties)
  return (
    spec.capacity === capacity &&
    Object.keys(spec.brokerProperties).length === names.length &&
    names.every((name) => spec.brokerProperties[name] === brokerProperties[name]) &&
    Object.keys(spec.deviceUsage).sort().join() === wanted
  )
}

function textOf({ path, message }: Problem): string {
  return path === '' ? message : `${path}: ${message}`
}
