import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  type Cluster,
  type InstanceDraft,
  type InstanceStep,
  InstanceWrites,
  isOwnedBy,
  newInstance,
  ObjectStore,
  resolveReferences,
} from '@akrijs/agent'
import {
  API_VERSION,
  type Configuration,
  type ConfigurationManifest,
  type ConfigurationStatus,
  conditionsOf,
  configurationOf,
  type DeviceProblem,
  deviceProblemIn,
  holderOf,
  type Instance,
  type InstanceProblem,
  instanceConditions,
  type KeyedData,
  type NodeStatus,
  resizedUsage,
  slotCounts,
} from '@akrijs/api'
import {
  applyJsonPatch,
  keyOf,
  keyParts,
  type NodeName,
  type ObjectEvent,
  type ObjectKey,
  objectKey,
} from '@akrijs/kube'
import { type Clock, InternalError, type Logger } from '@akrijs/runtime'
import type { DiscoveryProperties } from '@akrijs/sdk/handler'
import { type ClusterState, type StateFile, specDigest } from '../state/state-file.js'
import { ClusterDraft } from './cluster-draft.js'
import { EventLog } from './event-log.js'
import { PropertyData } from './property-data.js'

interface StandaloneClusterOptions {
  readonly file: StateFile
  readonly clock: Clock
  readonly log: Logger
}

/** The objects that the user's files define. */
export interface DesiredObjects {
  readonly configurations: readonly ConfigurationManifest[]
  readonly data: readonly KeyedData[]
  /**
   * Whether all other objects are removed. False while a file is unreadable: its objects are
   * unknown.
   */
  readonly complete: boolean
}

interface PendingChange {
  /** Changes the draft. @returns a function that answers the caller, once the file is written */
  make(draft: ClusterDraft): () => void
  fail(error: unknown): void
}

/**
 * A cluster in one process, with the conflict rules of an API server. Instances and claims are in a
 * file before any listener receives them; a change that cannot be written has not happened.
 */
export class StandaloneCluster extends InstanceWrites implements Cluster {
  readonly knownNodes: number = 1
  readonly configurations = new ObjectStore<Configuration>()
  readonly instances = new ObjectStore<Instance>()
  readonly events: EventLog
  readonly #options: StandaloneClusterOptions
  readonly #data = new PropertyData(this.configurations)
  /** Configurations from before the restart that the files have not named yet. */
  #remembered: ClusterState['configurations']
  #resourceVersion: number
  /** Changes that arrive during a write: the next write takes all of them. */
  #pending: PendingChange[] = []
  #committing: Promise<void> = Promise.resolve()

  private constructor(options: StandaloneClusterOptions, state: ClusterState) {
    super()
    this.#options = options
    this.#remembered = state.configurations
    this.#resourceVersion = state.resourceVersion
    this.events = new EventLog(options.clock)
    for (const instance of state.instances) this.instances.put(instance)
  }

  static async open(options: StandaloneClusterOptions): Promise<StandaloneCluster> {
    return new StandaloneCluster(options, await options.file.load(options.log))
  }

  /** Replaces the objects of the user. Instances without a Configuration are removed. */
  async apply(desired: DesiredObjects): Promise<void> {
    await this.#change((draft) => {
      const manifests = new Map(
        desired.configurations.map((manifest) => [
          objectKey(manifest.namespace, manifest.name),
          manifest,
        ]),
      )
      for (const [key, manifest] of manifests) this.#applyConfiguration(draft, key, manifest)
      if (desired.complete) {
        for (const configuration of draft.configurations.list()) {
          if (!manifests.has(keyOf(configuration)))
            draft.configurations.remove(keyOf(configuration))
        }
        // Also Configurations that left the files while no agent ran.
        draft.forgetRemembered()
      }
      const uids = new Map(
        // Configurations from before the restart may be in an unreadable file.
        Object.entries(draft.remembered).map(([key, { uid }]) => [key as ObjectKey, uid]),
      )
      for (const { metadata } of draft.configurations.list())
        uids.set(keyOf({ metadata }), metadata.uid)
      for (const instance of draft.instances.list()) {
        const key = configurationOf(instance)
        const uid = uids.get(key)
        const metadata = { ...keyParts(key), uid: uid ?? '' }
        if (uid === undefined || !isOwnedBy(instance, { metadata }))
          draft.instances.remove(keyOf(instance))
      }
    })
    this.#data.apply(desired.data, desired.complete)
  }

  /**
   * Removes all other nodes from Instances, with their claims: the machine had another name before.
   * An Instance that this node does not see is removed.
   * @returns the other nodes
   */
  keepOnlyNode(node: NodeName): Promise<NodeName[]> {
    return this.#change((draft) => {
      const others = new Set<NodeName>()
      for (const instance of draft.instances.list()) {
        const { capacity, deviceUsage } = instance.spec
        const nodes = instance.spec.nodes.filter((name) => name === node)
        const freed = Object.entries(deviceUsage).filter(
          ([, usage]) => usage !== '' && holderOf(usage) !== node,
        )
        if (nodes.length === instance.spec.nodes.length && freed.length === 0) continue
        const holders = freed.flatMap(([, usage]) => holderOf(usage) ?? [])
        for (const name of [...instance.spec.nodes, ...holders]) if (name !== node) others.add(name)
        if (nodes.length === 0) {
          draft.instances.remove(keyOf(instance))
          continue
        }
        const usage = { ...deviceUsage, ...Object.fromEntries(freed.map(([slot]) => [slot, ''])) }
        const spec = {
          ...instance.spec,
          nodes,
          deviceUsage: resizedUsage(instance.metadata.name, capacity, usage),
        }
        putChanged(draft, { ...instance, spec })
      }
      return [...others].sort()
    })
  }

  createInstance(instance: InstanceDraft): Promise<'created' | 'exists'> {
    return this.#change((draft) => {
      if (draft.instances.get(objectKey(instance.namespace, instance.name)) !== undefined)
        return 'exists'
      const { metadata, ...object } = newInstance(instance)
      draft.instances.put({
        ...object,
        metadata: {
          ...metadata,
          uid: randomUUID(),
          generation: 1,
          resourceVersion: draft.nextVersion(),
          creationTimestamp: this.#now(),
        },
      })
      return 'created'
    })
  }

  stayInInstance(): void {
    // No leave is asked for here.
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    return this.configurations.get(key)
  }

  async resolveProperties(configuration: Configuration): Promise<DiscoveryProperties> {
    return resolveReferences(configuration, async (reference) => this.#data.get(reference))
  }

  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#data.onChange(listener, signal)
  }

  /** `akri describe` shows the broker of an Instance. */
  reportSlots(): void {}

  /** A broker is a process of this machine, of the user who started the agent. */
  reportPodsToEnd(): void {}

  async reportStatus(
    key: ObjectKey,
    node: NodeName,
    status: NodeStatus,
    problems?: readonly DeviceProblem[],
  ): Promise<void> {
    const byInstance = new Map(
      (problems ?? []).flatMap(({ reason: message, found, instances }) =>
        instances.map((name) => [name, { reason: found ?? 'ReportedByHandler', message }] as const),
      ),
    )
    await this.#change((draft) => {
      const configuration = draft.configurations.get(key)
      if (configuration === undefined) return
      const instances = instancesOf(draft, configuration)
      const nodes = { ...configuration.status?.nodes, [node]: status }
      putStatus(draft, configuration, {
        observedGeneration: configuration.metadata.generation,
        conditions: conditionsOf(nodes, configuration.status?.conditions ?? [], this.#now()),
        devices: instances.length,
        slots: slotCounts(instances),
        nodes,
      })
      for (const instance of instances) {
        const before = deviceProblemIn(instance.status?.conditions)
        if (problems === undefined && before?.reason === 'ReportedByHandler') continue
        putProblem(draft, instance, byInstance.get(instance.metadata.name), this.#now())
      }
    })
  }

  recordEvent(event: ObjectEvent): void {
    this.events.record(event)
  }

  /** Resolves when every change so far is written or refused. */
  async close(): Promise<void> {
    await this.#committing
  }

  protected changeInstance<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T> {
    return this.#change((draft) => {
      const instance = draft.instances.get(key)
      const step = decide(instance)
      if ('done' in step) return step.done
      if ('remove' in step) draft.instances.remove(key)
      else {
        const patched = applyJsonPatch(instance, step.patch)
        // The step is for this very object: no test of the patch can fail.
        if ('refused' in patched) throw new InternalError(`a change of ${key}: ${patched.refused}`)
        const changed = patched.value as Instance
        if ('subresource' in step) draft.instances.putTransient(newVersion(draft, changed))
        else putChanged(draft, changed)
        countSlots(draft, changed)
      }
      return step.result
    })
  }

  #applyConfiguration(draft: ClusterDraft, key: ObjectKey, manifest: ConfigurationManifest): void {
    const { name, namespace, labels, annotations, spec } = manifest
    const current = draft.configurations.get(key)
    const { labels: oldLabels, annotations: oldAnnotations } = current?.metadata ?? {}
    const same = current !== undefined && isDeepStrictEqual(current.spec, spec)
    if (
      same &&
      isDeepStrictEqual(oldLabels, labels) &&
      isDeepStrictEqual(oldAnnotations, annotations)
    )
      return
    const remembered = Object.hasOwn(draft.remembered, key) ? draft.remembered[key] : undefined
    const identity = current?.metadata ?? remembered
    const isSameSpec = same || (current === undefined && remembered?.spec === specDigest(spec))
    draft.configurations.put({
      apiVersion: API_VERSION,
      kind: 'Configuration',
      metadata: {
        name,
        namespace,
        labels,
        annotations,
        uid: identity?.uid ?? randomUUID(),
        generation: identity === undefined ? 1 : identity.generation + (isSameSpec ? 0 : 1),
        resourceVersion: draft.nextVersion(),
        creationTimestamp: identity?.creationTimestamp ?? this.#now(),
      },
      spec,
      ...(current?.status === undefined ? {} : { status: current.status }),
    })
  }

  /**
   * Each change sees the result of the previous change. A refused change rejects for its caller.
   */
  #change<T>(work: (draft: ClusterDraft) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const make = (draft: ClusterDraft) => {
        const result = work(draft)
        return () => resolve(result)
      }
      this.#pending.push({ make, fail: reject })
      if (this.#pending.length === 1) this.#committing = this.#committing.then(() => this.#commit())
    })
  }

  /** Writes the file, then publishes the changes. */
  async #commit(): Promise<void> {
    const changes = this.#pending.splice(0)
    const draft = new ClusterDraft(this, {
      remembered: this.#remembered,
      resourceVersion: this.#resourceVersion,
    })
    let answers: (() => void)[]
    try {
      answers = changes.map((change) => change.make(draft))
      if (draft.changed) await this.#options.file.save(draft.state())
    } catch (error) {
      // Each change may build on another one: none of them has happened.
      for (const change of changes) change.fail(error)
      return
    }
    this.#remembered = draft.remembered
    this.#resourceVersion = draft.resourceVersion
    draft.publish()
    for (const answer of answers) answer()
  }

  #now(): string {
    return new Date(this.#options.clock.wallMs()).toISOString()
  }
}

function putChanged(draft: ClusterDraft, instance: Instance): void {
  const { metadata, ...object } = newVersion(draft, instance)
  draft.instances.put({ ...object, metadata: { ...metadata, generation: metadata.generation + 1 } })
}

/** An agent reports no status when claims alone have changed. */
function countSlots(draft: ClusterDraft, instance: Instance): void {
  const configuration = draft.configurations.get(configurationOf(instance))
  if (configuration?.status === undefined) return
  const slots = slotCounts(instancesOf(draft, configuration))
  putStatus(draft, configuration, { ...configuration.status, slots })
}

function instancesOf(draft: ClusterDraft, configuration: Configuration): Instance[] {
  return draft.instances.list().filter((instance) => isOwnedBy(instance, configuration))
}

function putStatus(
  draft: ClusterDraft,
  configuration: Configuration,
  status: ConfigurationStatus,
): void {
  if (isDeepStrictEqual(configuration.status, status)) return
  const metadata = { ...configuration.metadata, resourceVersion: draft.nextVersion() }
  draft.configurations.putTransient({ ...configuration, status, metadata })
}

function putProblem(
  draft: ClusterDraft,
  instance: Instance,
  problem: InstanceProblem | undefined,
  now: string,
): void {
  const before = instance.status?.conditions ?? []
  const conditions = instanceConditions(before, problem, now)
  if (isDeepStrictEqual(before, conditions)) return
  const status = { ...instance.status, conditions }
  draft.instances.putTransient(newVersion(draft, { ...instance, status }))
}

function newVersion(draft: ClusterDraft, instance: Instance): Instance {
  return { ...instance, metadata: { ...instance.metadata, resourceVersion: draft.nextVersion() } }
}
