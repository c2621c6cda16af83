import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  API_VERSION,
  type Compatibility,
  type Configuration,
  type ConfigurationManifest,
  type Instance,
  type NodeStatus,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectEvent, type ObjectKey, objectKey } from '@akrijs/kube'
import { applyJsonPatch } from '@akrijs/kube/testing'
import { DiscoveryProperties } from '@akrijs/sdk/handler'
import type { Cluster, InstanceDraft, SlotsInUse } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { isOwnedBy } from '../instances/existing-instances.js'
import { type InstanceStep, InstanceWrites, newInstance } from '../instances/instance-steps.js'

/**
 * The cluster of tests whose subject is above the port: objects in memory, with the conflict rules
 * of an API server. The contract of a cluster holds for it.
 */
export class MemoryCluster extends InstanceWrites implements Cluster {
  readonly knownNodes: number = 1
  readonly configurations = new ObjectStore<Configuration>()
  readonly instances: ObjectStore<Instance>
  /** The last status of each Configuration. */
  readonly statuses = new Map<ObjectKey, NodeStatus>()
  readonly events: ObjectEvent[] = []
  /** The slots that containers use, as they were last reported. */
  slotsInUse: SlotsInUse = new Map()
  #version = 0

  constructor(compatibility: Compatibility = 'off', instances = new ObjectStore<Instance>()) {
    super(compatibility)
    this.instances = instances
  }

  /** Replaces all Configurations. Instances without a Configuration are removed. */
  async apply(...manifests: readonly ConfigurationManifest[]): Promise<void> {
    const keys = new Set(manifests.map(({ namespace, name }) => objectKey(namespace, name)))
    for (const each of this.configurations.list())
      if (!keys.has(keyOf(each))) this.configurations.remove(keyOf(each))
    for (const { spec, ...metadata } of manifests) {
      const before = this.configurations.get(objectKey(metadata.namespace, metadata.name))
      const { uid = randomUUID(), generation = 0 } = before?.metadata ?? {}
      const isEdited = !isDeepStrictEqual(before?.spec, spec)
      this.configurations.put({
        apiVersion: API_VERSION,
        kind: 'Configuration',
        metadata: {
          ...metadata,
          ...this.#versioned({ uid, generation: generation + (isEdited ? 1 : 0) }),
        },
        spec,
      })
    }
    const owners = this.configurations.list()
    for (const each of this.instances.list())
      if (!owners.some((owner) => isOwnedBy(each, owner))) this.instances.remove(keyOf(each))
  }

  async readConfiguration(key: ObjectKey): Promise<Configuration | undefined> {
    return this.configurations.get(key)
  }

  async createInstance(draft: InstanceDraft): Promise<'created' | 'exists'> {
    await undefined
    if (this.instances.get(objectKey(draft.namespace, draft.name)) !== undefined) return 'exists'
    const { metadata, ...object } = newInstance(draft, this.compatibility)
    const versioned = this.#versioned({ uid: randomUUID(), generation: 1 })
    this.instances.put({ ...object, metadata: { ...metadata, ...versioned } })
    return 'created'
  }

  stayInInstance(): void {}

  async resolveProperties(): Promise<DiscoveryProperties> {
    return new DiscoveryProperties()
  }

  onPropertiesChanged(): void {}

  async reportStatus(key: ObjectKey, _node: NodeName, status: NodeStatus): Promise<void> {
    this.statuses.set(key, status)
  }

  reportSlots(slots: SlotsInUse): void {
    this.slotsInUse = slots
  }

  reportPodsToEnd(): void {}

  recordEvent(event: ObjectEvent): void {
    this.events.push(event)
  }

  protected async changeInstance<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T> {
    // As with a server, other changes come in between.
    await undefined
    const instance = this.instances.get(key)
    const step = decide(instance)
    if ('done' in step) return step.done
    if ('remove' in step) {
      this.instances.remove(key)
      return step.result
    }
    const patched = applyJsonPatch(instance, step.patch)
    if ('refused' in patched) throw new TypeError(patched.refused)
    const { metadata, ...object } = patched.value as Instance
    const generation = metadata.generation + ('subresource' in step ? 0 : 1)
    this.instances.put({ ...object, metadata: { ...metadata, ...this.#versioned({ generation }) } })
    return step.result
  }

  #versioned<T>(metadata: T) {
    const resourceVersion = String(++this.#version)
    return { creationTimestamp: '2026-01-01T00:00:00Z', ...metadata, resourceVersion }
  }
}
