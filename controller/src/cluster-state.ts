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
  type ApiClient,
  type ApiObject,
  DEPLOYMENTS,
  JOBS,
  keyOf,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  PODS,
  Reflector,
  Resource,
  type ResourceKind,
  SERVICES,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { CONTROLLER, controllerOf, LABELS } from './labels.js'
import { ObjectIndex } from './object-index.js'
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
} from './objects.js'

export interface ClusterStateOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

const OURS = { labelSelector: `${LABELS.controller}=${CONTROLLER}` }

/** One kind of object: how it is read from the cache, and how it is written. */
export interface Kind<T extends ApiObject> {
  readonly cache: Reflector<T>
  readonly api: Resource
}

/** What the API server has, as far as the controller needs it: kept current by watches. */
export class ClusterState {
  readonly configurations: Kind<Configuration>
  readonly instances: Kind<Instance>
  /** Of these only what carries our label. */
  readonly pods: Kind<Pod>
  readonly jobs: Kind<Job>
  readonly services: Kind<AppliedObject>
  readonly deployments: Kind<AppliedObject>
  readonly nodes: Kind<ClusterNode>
  /** Resolves once everything that exists has been seen. */
  readonly synced: Promise<void>
  readonly #options: ClusterStateOptions
  readonly #stop = new AbortController()
  readonly #instancesByConfiguration: ObjectIndex<Instance, ObjectKey>
  readonly #podsByOwner: ObjectIndex<Pod>
  readonly #jobsByOwner: ObjectIndex<Job>
  readonly #podsByInstance: ObjectIndex<Pod, ObjectKey>
  readonly #podsByConfiguration: ObjectIndex<Pod, ObjectKey>
  /** What else an Instance, or a Configuration, has to do with. */
  readonly #ofInstances: readonly Listenable[]
  readonly #ofConfigurations: readonly Listenable[]
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: ClusterStateOptions) {
    this.#options = options
    // Each index and each watch listens.
    setMaxListeners(0, this.#stop.signal)
    this.configurations = this.#kind(CONFIGURATIONS, (object, known) => {
      const parsed = parseConfigurationObject(object)
      if (parsed.ok) return parsed.configuration
      // The agents say in its status what is wrong with it. Its last good spec counts for as long as it is the same one; that
      // it is being deleted must be known, or what goes with it would be made again and again.
      const { metadata } = parsed.found ?? {}
      return known !== undefined && metadata?.uid === known.metadata.uid
        ? { ...known, metadata }
        : undefined
    })
    this.instances = this.#kind(INSTANCES, parseInstanceObject)
    this.pods = this.#kind(PODS, parsePod, OURS)
    this.jobs = this.#kind(JOBS, parseJob, OURS)
    this.services = this.#kind(SERVICES, parseAppliedObject, OURS)
    this.deployments = this.#kind(DEPLOYMENTS, parseAppliedObject, OURS)
    this.nodes = this.#kind(NODES, parseNode)
    const { signal } = this.#stop
    this.synced = Promise.all(this.#caches().map(({ synced }) => synced)).then(() => undefined)
    this.#instancesByConfiguration = new ObjectIndex(this.instances.cache, configurationOf, signal)
    this.#podsByOwner = new ObjectIndex(
      this.pods.cache,
      ({ metadata }) => controllerOf(metadata)?.uid,
      signal,
    )
    this.#jobsByOwner = new ObjectIndex(
      this.jobs.cache,
      ({ metadata }) => controllerOf(metadata)?.uid,
      signal,
    )
    const labelled = <T extends KubernetesObject>({ cache }: Kind<T>, label: string) =>
      new ObjectIndex(cache, ({ metadata }) => labelledKey(metadata, label), signal)
    this.#podsByInstance = labelled(this.pods, LABELS.instance)
    this.#podsByConfiguration = labelled(this.pods, LABELS.configuration)
    // Labels can be edited, and what is an Instance's stays so.
    const owned = <T extends KubernetesObject>({ cache }: Kind<T>) =>
      new ObjectIndex(cache, ({ metadata }) => ownerKey(metadata, 'Instance'), signal)
    this.#ofInstances = [
      this.#podsByInstance,
      owned(this.pods),
      labelled(this.jobs, LABELS.instance),
      owned(this.jobs),
      labelled(this.services, LABELS.instance),
    ]
    this.#ofConfigurations = [
      this.#instancesByConfiguration,
      this.#podsByConfiguration,
      labelled(this.jobs, LABELS.configuration),
      labelled(this.services, LABELS.configuration),
      labelled(this.deployments, LABELS.configuration),
    ]
  }

  start(): void {
    this.#running = Promise.all(this.#caches().map((cache) => cache.run(this.#stop.signal)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Since when the API server has not been heard of, in milliseconds; undefined before it first was. */
  get silentForMs(): number | undefined {
    const last = this.instances.cache.lastContact
    return last === undefined ? undefined : this.#options.clock.monotonicMs() - last
  }

  instancesOf(configuration: ObjectKey): Instance[] {
    return this.#instancesByConfiguration.get(configuration)
  }

  /** The Pods that an object owns as their controller. */
  podsOwnedBy(uid: string): Pod[] {
    return this.#podsByOwner.get(uid)
  }

  jobsOwnedBy(uid: string): Job[] {
    return this.#jobsByOwner.get(uid)
  }

  /** The Pods that carry the label of an Instance, or of a Configuration, whoever made them: those that its Service finds. */
  podsLabelled(label: 'instance' | 'configuration', key: ObjectKey): Pod[] {
    return (label === 'instance' ? this.#podsByInstance : this.#podsByConfiguration).get(key)
  }

  /** Calls back with each Instance that something has changed about: itself, its Configuration, or what belongs to it. */
  onInstanceChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.instances.cache.onChange(listener, signal)
    this.configurations.cache.onChange((key) => {
      for (const instance of this.instancesOf(key)) listener(keyOf(instance))
    }, signal)
    for (const index of this.#ofInstances) index.onChange(listener, signal)
  }

  /** Calls back with each Configuration that something has changed about: itself, its Instances, or what belongs to it. */
  onConfigurationChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.configurations.cache.onChange(listener, signal)
    for (const index of this.#ofConfigurations) index.onChange(listener, signal)
  }

  /** Calls back with a node that came or went, or where Pods can run now or no longer, and the Instances that it sees. */
  onNodeChange(
    listener: (node: NodeName, seenBy: readonly ObjectKey[]) => void,
    signal: AbortSignal,
  ): void {
    const known = new Map<ObjectKey, string>()
    this.nodes.cache.onChange((key) => {
      const node = this.nodes.cache.get(key)
      // Nodes report in every few seconds, mostly with nothing new.
      const state = node === undefined ? '' : JSON.stringify(whatCounts(node))
      if (known.get(key) === state) return
      if (node === undefined) known.delete(key)
      else known.set(key, state)
      const name = key.slice(1) as NodeName
      const seen = this.instances.cache.list().filter(({ spec }) => spec.nodes.includes(name))
      listener(name, seen.map(keyOf))
    }, signal)
  }

  #kind<T extends ApiObject>(
    kind: ResourceKind,
    parse: (object: unknown, known: T | undefined) => T | undefined,
    query: { readonly labelSelector?: string } = {},
  ): Kind<T> {
    const { client, clock, log, random = Math.random } = this.#options
    const api = new Resource(client, kind)
    const path = api.path()
    const cache = new Reflector<T>({
      client,
      clock,
      random,
      path,
      query,
      parse,
      onError: (error, retryInMs) =>
        log.warn(
          { path, err: error, retryInMs: Math.round(retryInMs) },
          'cannot follow the API server',
        ),
    })
    return { cache, api }
  }

  #caches() {
    const { configurations, instances, pods, jobs, services, deployments, nodes } = this
    return [configurations, instances, pods, jobs, services, deployments, nodes].map(
      ({ cache }) => cache as Reflector<ApiObject>,
    )
  }
}

/** What decides whether Pods can run there. */
function whatCounts({
  ready,
  schedulable,
  metadata: { labels, deletionTimestamp },
}: ClusterNode): unknown {
  return { ready, schedulable, labels, leaves: deletionTimestamp !== undefined }
}

interface Listenable {
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void
}

function ownerKey(metadata: KubernetesObject['metadata'], kind: string): ObjectKey | undefined {
  const owner = controllerOf(metadata)
  return owner?.kind === kind ? objectKey(metadata.namespace, owner.name) : undefined
}

/** What a label names in the object's own namespace. Names of Configurations and Instances are never too long for a label. */
function labelledKey(
  { namespace, labels }: KubernetesObject['metadata'],
  label: string,
): ObjectKey | undefined {
  const value = labels?.[label]
  return value === undefined ? undefined : objectKey(namespace, value)
}
