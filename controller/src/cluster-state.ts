import { setMaxListeners } from 'node:events'
import {
  CONFIGURATIONS,
  type Configuration,
  configurationOf,
  INSTANCES,
  type Instance,
  parseConfigurationObject,
  parseInstanceObject,
} from '@akrijs/api'
import {
  type ApiObject,
  DEPLOYMENTS,
  JOBS,
  keyOf,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  PODS,
  type Reflector,
  type ResourceKind,
  SERVICES,
} from '@akrijs/kube'
import { CacheIndex } from './cache-index.js'
import { type Collection, type CollectionOptions, collectionOf } from './collection.js'
import {
  type AppliedObject,
  type ClusterNode,
  type Job,
  type KubernetesObject,
  type Pod,
  parseAppliedObject,
  parseJob,
  parseNode,
  parsePod,
} from './kubernetes-objects.js'
import { belongsTo, CONTROLLER, controllerOf, LABELS } from './labels.js'
import { OwnedObjects } from './owned-objects.js'

const WITH_LABEL = { labelSelector: `${LABELS.controller}=${CONTROLLER}` }

/** The objects of the API server that the controller needs: caches that watches keep current. */
export class ClusterState {
  readonly configurations: Collection<Configuration>
  readonly instances: Collection<Instance>
  /** Pods, Jobs, Services and Deployments that have the controller's label. */
  readonly pods: OwnedObjects<Pod>
  readonly jobs: OwnedObjects<Job>
  readonly services: OwnedObjects<AppliedObject>
  readonly deployments: OwnedObjects<AppliedObject>
  readonly nodes: Collection<ClusterNode>
  /** Resolves once all caches have received all objects. */
  readonly synced: Promise<void>
  readonly #options: CollectionOptions
  readonly #stop = new AbortController()
  readonly #instancesByConfiguration: CacheIndex<Instance, ObjectKey>
  readonly #podsByOwner: CacheIndex<Pod>
  readonly #jobsByOwner: CacheIndex<Job>
  readonly #podsByInstance: CacheIndex<Pod, ObjectKey>
  readonly #podsByConfiguration: CacheIndex<Pod, ObjectKey>
  /** The objects that belong to an Instance, or to a Configuration, by its key. */
  readonly #partsOfInstances: readonly Listenable[]
  readonly #partsOfConfigurations: readonly Listenable[]
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: CollectionOptions) {
    this.#options = options
    const { signal } = this.#stop
    // Each index and each watch adds a listener.
    setMaxListeners(0, signal)
    this.configurations = collectionOf(CONFIGURATIONS, parseConfiguration, options)
    this.instances = collectionOf<Instance>(INSTANCES, parseInstanceObject, options)
    this.nodes = collectionOf<ClusterNode>(NODES, parseNode, options)
    const owned = <T extends ApiObject & KubernetesObject>(
      kind: ResourceKind,
      parse: (object: unknown) => T | undefined,
    ) => new OwnedObjects(collectionOf(kind, parse, options, WITH_LABEL), signal)
    this.pods = owned(PODS, parsePod)
    this.jobs = owned(JOBS, parseJob)
    this.services = owned(SERVICES, parseAppliedObject)
    this.deployments = owned(DEPLOYMENTS, parseAppliedObject)
    this.synced = Promise.all(this.#caches().map(({ synced }) => synced)).then(() => undefined)

    const byOwner = <T extends ApiObject & KubernetesObject>({ cache }: Collection<T>) =>
      new CacheIndex(cache, ({ metadata }) => controllerOf(metadata)?.uid, signal)
    const byLabel = <T extends ApiObject & KubernetesObject>(
      { cache }: Collection<T>,
      label: string,
    ) => new CacheIndex(cache, ({ metadata }) => labelledKey(metadata, label), signal)
    // Users can edit labels; the owner stays.
    const byInstance = <T extends ApiObject & KubernetesObject>({ cache }: Collection<T>) =>
      new CacheIndex(cache, ({ metadata }) => ownerKey(metadata, 'Instance'), signal)
    this.#instancesByConfiguration = new CacheIndex(this.instances.cache, configurationOf, signal)
    this.#podsByOwner = byOwner(this.pods)
    this.#jobsByOwner = byOwner(this.jobs)
    this.#podsByInstance = byLabel(this.pods, LABELS.instance)
    this.#podsByConfiguration = byLabel(this.pods, LABELS.configuration)
    this.#partsOfInstances = [
      this.#podsByInstance,
      byInstance(this.pods),
      byLabel(this.jobs, LABELS.instance),
      byInstance(this.jobs),
      byLabel(this.services, LABELS.instance),
    ]
    this.#partsOfConfigurations = [
      this.#instancesByConfiguration,
      this.#podsByConfiguration,
      byLabel(this.jobs, LABELS.configuration),
      byLabel(this.services, LABELS.configuration),
      byLabel(this.deployments, LABELS.configuration),
    ]
  }

  start(): void {
    this.#running = Promise.all(this.#caches().map((cache) => cache.run(this.#stop.signal)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Time since the last answer of the API server, in milliseconds; undefined before the first. */
  get silentForMs(): number | undefined {
    const last = this.instances.cache.lastContact
    return last === undefined ? undefined : this.#options.clock.monotonicMs() - last
  }

  isReady(node: NodeName): boolean {
    return this.nodes.cache.get(objectKey('', node))?.ready === true
  }

  /** The Configuration that owns the Instance, and not only has the name of the owner. */
  ownerOf(instance: Instance): Configuration | undefined {
    const configuration = this.configurations.cache.get(configurationOf(instance))
    return configuration !== undefined && belongsTo(instance, configuration.metadata.uid)
      ? configuration
      : undefined
  }

  instancesOf(configuration: ObjectKey): Instance[] {
    return this.#instancesByConfiguration.get(configuration)
  }

  /** The Pods whose controller is the object with this uid. */
  podsOwnedBy(uid: string): Pod[] {
    return this.#podsByOwner.get(uid).map((pod) => this.pods.withDeletion(pod))
  }

  jobsOwnedBy(uid: string): Job[] {
    return this.#jobsByOwner.get(uid).map((job) => this.jobs.withDeletion(job))
  }

  /**
   * The Pods with the label of an Instance, or of a Configuration: those that its Service selects.
   */
  podsLabelled(label: 'instance' | 'configuration', key: ObjectKey): Pod[] {
    const index = label === 'instance' ? this.#podsByInstance : this.#podsByConfiguration
    return index.get(key).map((pod) => this.pods.withDeletion(pod))
  }

  /**
   * Calls back with an Instance after it, its Configuration or an object of the Instance changed.
   */
  onInstanceChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.instances.cache.onChange(listener, signal)
    this.configurations.cache.onChange((key) => {
      for (const instance of this.instancesOf(key)) listener(keyOf(instance))
    }, signal)
    for (const index of this.#partsOfInstances) index.onChange(listener, signal)
  }

  /** Calls back with a Configuration after it, an Instance or another object of it changed. */
  onConfigurationChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.configurations.cache.onChange(listener, signal)
    for (const index of this.#partsOfConfigurations) index.onChange(listener, signal)
  }

  /**
   * Calls back with a node, and with the Instances that the node sees, after the node was added or
   * removed, or a change decides whether Pods can run there.
   */
  onNodeChange(
    listener: (node: NodeName, instances: readonly ObjectKey[]) => void,
    signal: AbortSignal,
  ): void {
    const before = new Map<ObjectKey, string>()
    this.nodes.cache.onChange((key) => {
      const node = this.nodes.cache.get(key)
      // A kubelet updates its Node every few seconds, mostly without such a change.
      const state = node === undefined ? '' : JSON.stringify(schedulingState(node))
      if (before.get(key) === state) return
      if (node === undefined) before.delete(key)
      else before.set(key, state)
      const name = key.slice(1) as NodeName
      const instances = this.instances.cache.list().filter(({ spec }) => spec.nodes.includes(name))
      listener(name, instances.map(keyOf))
    }, signal)
  }

  #caches() {
    const { configurations, instances, pods, jobs, services, deployments, nodes } = this
    return [configurations, instances, pods, jobs, services, deployments, nodes].map(
      ({ cache }) => cache as Reflector<ApiObject>,
    )
  }
}

function parseConfiguration(
  object: unknown,
  cached: Configuration | undefined,
): Configuration | undefined {
  const parsed = parseConfigurationObject(object)
  if (parsed.ok) return parsed.configuration
  // The agents report the problem in the status. The last valid spec of the same object stays in
  // force. A deletion timestamp must show, or the controller would create deleted parts again.
  const { metadata } = parsed.found ?? {}
  return cached !== undefined && metadata?.uid === cached.metadata.uid
    ? { ...cached, metadata }
    : undefined
}

/** The part of a node that decides whether Pods can run there. */
function schedulingState({
  ready,
  schedulable,
  metadata: { labels, deletionTimestamp },
}: ClusterNode): unknown {
  return { ready, schedulable, labels, isDeleted: deletionTimestamp !== undefined }
}

interface Listenable {
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void
}

function ownerKey(metadata: KubernetesObject['metadata'], kind: string): ObjectKey | undefined {
  const owner = controllerOf(metadata)
  return owner?.kind === kind ? objectKey(metadata.namespace, owner.name) : undefined
}

/**
 * The key of the object that a label names, in the same namespace. Names of Configurations and
 * Instances are never too long for a label.
 */
function labelledKey(
  { namespace, labels }: KubernetesObject['metadata'],
  label: string,
): ObjectKey | undefined {
  const value = labels?.[label]
  return value === undefined ? undefined : objectKey(namespace, value)
}
