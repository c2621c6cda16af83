import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  API_VERSION,
  type Configuration,
  type ConfigurationManifest,
  type ConfigurationStatus,
  type Instance,
  type KeyedData,
  type KeySelector,
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  type SlotName,
} from '@akrijs/kube'
import { type Clock, DiscoveryProperties, type Logger } from '@akrijs/sdk'
import { MissingPropertyError } from '../errors.js'
import type { Cluster, ClusterEvent, InstanceDraft, SlotClaim } from '../ports/cluster.js'
import { parseSlotUsage, slotIndex, slotName } from '../slots/slot-usage.js'
import { EventLog } from './event-log.js'
import { ObjectStore } from './object-store.js'
import type { ClusterState, StateFile } from './state-file.js'

export interface StandaloneClusterOptions {
  readonly file: StateFile
  readonly clock: Clock
  readonly log: Logger
}

/** The objects that are to be there, as the files of the user say. */
export interface DesiredObjects {
  readonly configurations: readonly ConfigurationManifest[]
  readonly data: readonly KeyedData[]
  /** Whether what is not named is to go. Not while a file cannot be read: what it would name is not known. */
  readonly complete: boolean
}

/**
 * A cluster of one process, with the conflict rules of an API server. Instances and claims are in a file before anybody
 * hears of them; what cannot be written has not happened.
 */
export class StandaloneCluster implements Cluster {
  readonly configurations = new ObjectStore<Configuration>()
  readonly instances = new ObjectStore<Instance>()
  readonly events: EventLog
  readonly #options: StandaloneClusterOptions
  readonly #data = new Map<string, KeyedData>()
  readonly #propertyListeners = new Set<(configuration: ObjectKey) => void>()
  /** Uids of Configurations from before the restart that the files have not named yet. */
  #remembered: ClusterState['configurations']
  #resourceVersion: number
  /** Changes happen one after the other: each sees the outcome of the one before. */
  #queue: Promise<unknown> = Promise.resolve()

  private constructor(options: StandaloneClusterOptions, state: ClusterState) {
    this.#options = options
    this.#remembered = state.configurations
    this.#resourceVersion = state.resourceVersion
    this.events = new EventLog(options.clock)
    for (const instance of state.instances) this.instances.put(instance)
  }

  static async open(options: StandaloneClusterOptions): Promise<StandaloneCluster> {
    return new StandaloneCluster(options, await options.file.load(options.log))
  }

  /** Makes the objects of the user those, and no others. Instances of a Configuration that is gone go with it. */
  async apply(desired: DesiredObjects): Promise<void> {
    await this.#change(async () => {
      const wanted = new Map(desired.configurations.map((manifest) => [objectKey(manifest.namespace, manifest.name), manifest]))
      const changed = [...wanted].flatMap(([key, manifest]) => this.#appliedConfiguration(key, manifest))
      const gone = desired.complete ? this.configurations.list().filter((configuration) => !wanted.has(keyOf(configuration))) : []
      const staying = this.configurations.list().filter((one) => !gone.includes(one))
      const uids = new Set([...staying, ...changed].map((one) => one.metadata.uid))
      // From before the restart, and perhaps in the file that cannot be read.
      if (!desired.complete) for (const { uid } of Object.values(this.#remembered)) uids.add(uid)
      const orphans = this.instances
        .list()
        .filter((instance) => !instance.metadata.ownerReferences?.some((owner) => uids.has(owner.uid)))

      const configurations = [...staying.filter((one) => !changed.some((other) => keyOf(other) === keyOf(one))), ...changed]
      const instances = this.instances.list().filter((instance) => !orphans.includes(instance))
      // Whoever is not in the files any more is forgotten, also if it went while no agent ran.
      const remembered = desired.complete ? {} : this.#remembered
      if (changed.length > 0 || gone.length > 0 || orphans.length > 0) await this.#save(instances, configurations, remembered)
      this.#remembered = remembered
      for (const configuration of changed) this.configurations.put(configuration)
      for (const configuration of gone) this.configurations.remove(keyOf(configuration))
      for (const instance of orphans) this.instances.remove(keyOf(instance))
      this.#applyData(desired)
    })
  }

  createInstance(draft: InstanceDraft): Promise<'created' | 'exists'> {
    return this.#change(async () => {
      const key = objectKey(draft.namespace, draft.name)
      if (this.instances.get(key) !== undefined) return 'exists'
      const { name, uid } = draft.owner.metadata
      await this.#put({
        apiVersion: API_VERSION,
        kind: 'Instance',
        metadata: {
          name: draft.name,
          namespace: draft.namespace,
          uid: randomUUID(),
          generation: 1,
          resourceVersion: this.#nextVersion(),
          creationTimestamp: this.#now(),
          annotations: draft.annotations,
          ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name, uid, controller: true }],
        },
        spec: { ...draft.spec, deviceUsage: withSlots(draft.name, draft.spec.capacity, {}) },
      })
      return 'created'
    })
  }

  joinInstance(key: ObjectKey, node: NodeName): Promise<'joined' | 'already-joined' | 'gone'> {
    return this.#change(async () => {
      const instance = this.instances.get(key)
      if (instance === undefined) return 'gone'
      if (instance.spec.nodes.includes(node)) return 'already-joined'
      await this.#putSpec(instance, { nodes: [...instance.spec.nodes, node] })
      return 'joined'
    })
  }

  leaveInstance(key: ObjectKey, node: NodeName): Promise<'left' | 'deleted' | 'gone'> {
    return this.#change(async () => {
      const instance = this.instances.get(key)
      if (instance === undefined || !instance.spec.nodes.includes(node)) return 'gone'
      const nodes = instance.spec.nodes.filter((other) => other !== node)
      if (nodes.length === 0) {
        await this.#save(this.instances.list().filter((other) => other !== instance))
        this.instances.remove(key)
        return 'deleted'
      }
      const { name } = instance.metadata
      const freed = Object.fromEntries(
        Object.entries(instance.spec.deviceUsage).map(([slot, usage]) => [slot, isHeldBy(usage, node) ? '' : usage]),
      )
      await this.#putSpec(instance, { nodes, deviceUsage: withSlots(name, instance.spec.capacity, freed) })
      return 'left'
    })
  }

  updateInstance(key: ObjectKey, fields: Pick<Instance['spec'], 'capacity' | 'brokerProperties'>): Promise<'updated' | 'gone'> {
    return this.#change(async () => {
      const instance = this.instances.get(key)
      if (instance === undefined) return 'gone'
      const deviceUsage = withSlots(instance.metadata.name, fields.capacity, instance.spec.deviceUsage)
      await this.#putSpec(instance, { ...fields, deviceUsage })
      return 'updated'
    })
  }

  claimSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim> {
    return this.#change(async (): Promise<SlotClaim> => {
      const instance = this.instances.get(key)
      const index = instance && slotIndex(instance.metadata.name, slot)
      if (instance === undefined || index === undefined || index >= instance.spec.capacity) return { outcome: 'gone' }
      const holder = instance.spec.deviceUsage[slot] ?? ''
      if (holder !== '') return { outcome: 'taken', by: holder }
      await this.#putSpec(instance, { deviceUsage: { ...instance.spec.deviceUsage, [slot]: usage } })
      return { outcome: 'claimed' }
    })
  }

  releaseSlot(key: ObjectKey, slot: SlotName, usage: string): Promise<'released' | 'changed' | 'gone'> {
    return this.#change(async () => {
      const instance = this.instances.get(key)
      if (instance === undefined) return 'gone'
      if (instance.spec.deviceUsage[slot] !== usage || usage === '') return 'changed'
      const freed = { ...instance.spec.deviceUsage, [slot]: '' }
      await this.#putSpec(instance, { deviceUsage: withSlots(instance.metadata.name, instance.spec.capacity, freed) })
      return 'released'
    })
  }

  async resolveProperties(configuration: Configuration): Promise<DiscoveryProperties> {
    const values: [string, Uint8Array | undefined][] = []
    for (const property of configuration.spec.discoveryHandler.discoveryProperties) {
      if (!('valueFrom' in property)) {
        values.push([property.name, property.value === undefined ? undefined : Buffer.from(property.value)])
        continue
      }
      const [kind, selector] =
        'secretKeyRef' in property.valueFrom
          ? (['Secret', property.valueFrom.secretKeyRef] as const)
          : (['ConfigMap', property.valueFrom.configMapKeyRef] as const)
      const value = this.#lookUp(kind, selector, configuration.metadata.namespace, property.name)
      if (value !== undefined) values.push([property.name, value])
    }
    return new DiscoveryProperties(values)
  }

  onPropertiesChanged(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    if (signal.aborted) return
    const own = (configuration: ObjectKey) => listener(configuration)
    this.#propertyListeners.add(own)
    signal.addEventListener('abort', () => this.#propertyListeners.delete(own), { once: true })
  }

  async writeStatus(key: ObjectKey, status: ConfigurationStatus): Promise<void> {
    const configuration = this.configurations.get(key)
    if (configuration === undefined || isDeepStrictEqual(configuration.status, status)) return
    // Not in the file: it tells of this run.
    this.configurations.put({
      ...configuration,
      status,
      metadata: { ...configuration.metadata, resourceVersion: this.#nextVersion() },
    })
  }

  recordEvent(event: ClusterEvent): void {
    this.events.record(event)
  }

  /** Resolves when every change so far is in the file or refused. */
  async close(): Promise<void> {
    await this.#queue
  }

  #appliedConfiguration(key: ObjectKey, { name, namespace, labels, annotations, spec }: ConfigurationManifest): Configuration[] {
    const there = this.configurations.get(key)
    const sameSpec = there !== undefined && isDeepStrictEqual(there.spec, spec)
    const { labels: oldLabels, annotations: oldAnnotations } = there?.metadata ?? {}
    if (sameSpec && isDeepStrictEqual(oldLabels, labels) && isDeepStrictEqual(oldAnnotations, annotations)) return []
    const known = there?.metadata ?? (Object.hasOwn(this.#remembered, key) ? this.#remembered[key] : undefined)
    const generation = known === undefined ? 1 : there === undefined || sameSpec ? known.generation : known.generation + 1
    return [
      {
        apiVersion: API_VERSION,
        kind: 'Configuration',
        metadata: {
          name,
          namespace,
          labels,
          annotations,
          uid: known?.uid ?? randomUUID(),
          generation,
          resourceVersion: this.#nextVersion(),
          creationTimestamp: known?.creationTimestamp ?? this.#now(),
        },
        spec,
        ...(there?.status === undefined ? {} : { status: there.status }),
      },
    ]
  }

  #applyData({ data, complete }: DesiredObjects): void {
    const before = new Map(this.#data)
    if (complete) this.#data.clear()
    for (const one of data) this.#data.set(dataKey(one.kind, one.namespace, one.name), one)
    const changed = new Set(
      [...before.keys(), ...this.#data.keys()].filter((key) => !sameData(before.get(key), this.#data.get(key))),
    )
    if (changed.size === 0) return
    for (const configuration of this.configurations.list()) {
      if (referencesOf(configuration).some((key) => changed.has(key))) {
        for (const listener of [...this.#propertyListeners]) listener(keyOf(configuration))
      }
    }
  }

  #lookUp(
    kind: KeyedData['kind'],
    { name, key, namespace, optional = false }: KeySelector,
    own: string,
    property: string,
  ): Uint8Array | undefined {
    const where = namespace ?? own
    const object = this.#data.get(dataKey(kind, where, name))
    const value = object?.data.get(key)
    if (value !== undefined || optional) return value
    const missing = object === undefined ? `there is no ${kind} ${where}/${name}` : `${kind} ${where}/${name} has no key ${key}`
    throw new MissingPropertyError(`discovery property ${property}: ${missing}`)
  }

  async #putSpec(instance: Instance, change: Partial<Instance['spec']>): Promise<void> {
    const spec = { ...instance.spec, ...change }
    if (isDeepStrictEqual(spec, instance.spec)) return
    const { metadata } = instance
    await this.#put({
      ...instance,
      metadata: { ...metadata, generation: metadata.generation + 1, resourceVersion: this.#nextVersion() },
      spec,
    })
  }

  /** Writes, then shows. */
  async #put(instance: Instance): Promise<void> {
    const others = this.instances.list().filter((other) => keyOf(other) !== keyOf(instance))
    await this.#save([...others, instance])
    this.instances.put(instance)
  }

  async #save(
    instances: readonly Instance[],
    configurations: readonly Configuration[] = this.configurations.list(),
    remembered: ClusterState['configurations'] = this.#remembered,
  ): Promise<void> {
    const known = configurations.map((configuration) => {
      const { uid, generation, creationTimestamp } = configuration.metadata
      return [keyOf(configuration), { uid, generation, creationTimestamp }] as const
    })
    await this.#options.file.save({
      configurations: { ...remembered, ...Object.fromEntries(known) },
      instances,
      resourceVersion: this.#resourceVersion,
    })
  }

  #change<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work)
    // A change that was refused is told to its caller, and does not stop those that follow.
    this.#queue = result.catch(() => undefined)
    return result
  }

  #nextVersion(): string {
    this.#resourceVersion++
    return String(this.#resourceVersion)
  }

  #now(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }
}

/** One key for each slot; slots beyond the capacity stay for as long as somebody holds them. */
function withSlots(
  instance: Instance['metadata']['name'],
  capacity: number,
  usage: Readonly<Record<string, string>>,
): Record<string, string> {
  const slots = new Map<string, string>()
  for (let index = 0; index < capacity; index++) slots.set(slotName(instance, index), usage[slotName(instance, index)] ?? '')
  for (const [slot, holder] of Object.entries(usage)) if (holder !== '') slots.set(slot, holder)
  return Object.fromEntries(slots)
}

function isHeldBy(usage: string, node: NodeName): boolean {
  const parsed = parseSlotUsage(usage)
  return (parsed.level === 'instance' || parsed.level === 'configuration') && parsed.node === node
}

function dataKey(kind: KeyedData['kind'], namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`
}

function referencesOf(configuration: Configuration): string[] {
  const { namespace } = configuration.metadata
  return configuration.spec.discoveryHandler.discoveryProperties.flatMap((property) => {
    if (!('valueFrom' in property)) return []
    if ('secretKeyRef' in property.valueFrom) {
      const { secretKeyRef } = property.valueFrom
      return [dataKey('Secret', secretKeyRef.namespace ?? namespace, secretKeyRef.name)]
    }
    const { configMapKeyRef } = property.valueFrom
    return [dataKey('ConfigMap', configMapKeyRef.namespace ?? namespace, configMapKeyRef.name)]
  })
}

function sameData(a: KeyedData | undefined, b: KeyedData | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.data.size === b.data.size &&
    [...a.data].every(([key, value]) => Buffer.from(value).equals(b.data.get(key) ?? Buffer.alloc(0)) && b.data.has(key))
  )
}
