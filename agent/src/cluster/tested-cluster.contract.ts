import type {
  Configuration,
  ConfigurationManifest,
  Instance,
  NodeStatus,
  SlotName,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { expect } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { draftOf, manifest } from '../testing/objects.js'
import type { Cluster } from './cluster.js'

/** An adapter under test. */
export interface ClusterUnderTest {
  readonly cluster: Cluster
  applyConfiguration(configuration: ConfigurationManifest): Promise<void>
  removeConfiguration(
    configuration: Pick<ConfigurationManifest, 'namespace' | 'name'>,
  ): Promise<void>
  /** The status of the Configuration on `node-a`, as the cluster shows it; undefined: none. */
  reportedStatus(configuration: ObjectKey): Promise<NodeStatus | undefined>
  /**
   * Closes the adapter and opens it again on the same objects. An adapter without state of its own
   * has none.
   */
  restart?(): Promise<Cluster>
  dispose(): Promise<void>
}

export const NODE_A = 'node-a' as NodeName
export const NODE_B = 'node-b' as NodeName
export const NODES = [NODE_A, NODE_B, 'node-c' as NodeName]

export function found<T>(value: T | undefined): T {
  expect(value).toBeDefined()
  if (value === undefined) throw new TypeError('nothing is there')
  return value
}

export const slot = (object: Instance, index: number) =>
  `${object.metadata.name}-${index}` as SlotName

/** The cluster of the present test, with the helpers of the contract. */
export class TestedCluster {
  #instance: ClusterUnderTest | undefined
  #cluster: Cluster | undefined

  async open(make: () => Promise<ClusterUnderTest>): Promise<void> {
    this.#instance = await make()
    this.#cluster = this.#instance.cluster
    await Promise.all([this.cluster.configurations.synced, this.cluster.instances.synced])
  }

  get adapter(): ClusterUnderTest {
    return found(this.#instance)
  }

  get cluster(): Cluster {
    return found(this.#cluster)
  }

  /** For adapters with `restart` only. */
  async restart(): Promise<void> {
    this.#cluster = found(await this.adapter.restart?.())
  }

  async configuration(): Promise<Configuration> {
    const wanted = manifest()
    await this.adapter.applyConfiguration(wanted)
    return this.seen(wanted)
  }

  seen({ namespace, name }: ConfigurationManifest): Promise<Configuration> {
    return eventually(() => found(this.cluster.configurations.get(objectKey(namespace, name))))
  }

  /** Creates an Instance with its own Configuration. */
  async instance(
    capacity: number,
    nodes: readonly NodeName[] = [NODE_A],
    digest = '8120fe',
    annotations: Readonly<Record<string, string>> = {},
  ): Promise<Instance> {
    const owner = await this.configuration()
    const draft = { ...draftOf(owner, capacity, nodes, digest), annotations }
    expect(await this.cluster.createInstance(draft)).toBe('created')
    return eventually(() =>
      found(this.cluster.instances.get(objectKey(draft.namespace, draft.name))),
    )
  }

  current(object: Instance): Instance | undefined {
    return this.cluster.instances.get(keyOf(object))
  }

  usageOf(object: Instance): Instance['spec']['deviceUsage'] | undefined {
    return this.current(object)?.spec.deviceUsage
  }

  infoOf(object: Instance): Readonly<Record<string, string>> | undefined {
    return this.current(object)?.status?.brokerInfo
  }
}
