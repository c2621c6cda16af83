import type {
  Configuration,
  ConfigurationManifest,
  Instance,
  NodeStatus,
  SlotName,
} from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { expect } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { draftOf, manifest } from '../testing/objects.js'
import type { Cluster, InstanceChange, SlotClaim } from './cluster.js'

/** An adapter under test. */
export interface ClusterUnderTest {
  readonly cluster: Cluster
  applyConfiguration(configuration: ConfigurationManifest): Promise<void>
  removeConfiguration(
    configuration: Pick<ConfigurationManifest, 'namespace' | 'name'>,
  ): Promise<void>
  /** The status of the Configuration on `node-a`, as the cluster shows it; undefined: none. */
  reportedStatus(configuration: ObjectKey): Promise<NodeStatus | undefined>
  dispose(): Promise<void>
}

export const NODE_A = 'node-a' as NodeName
export const NODE_B = 'node-b' as NodeName
export const NODES = [NODE_A, NODE_B, 'node-c' as NodeName]

export function found<T>(value: T | undefined): T {
  return value ?? expect.fail('nothing is there')
}

/** The cluster of the present test, with the helpers of the contract. */
export class TestedCluster {
  #adapter: ClusterUnderTest | undefined

  async open(make: () => Promise<ClusterUnderTest>): Promise<void> {
    this.#adapter = await make()
    await Promise.all([this.cluster.configurations.synced, this.cluster.instances.synced])
  }

  get adapter(): ClusterUnderTest {
    return found(this.#adapter)
  }

  get cluster(): Cluster {
    return this.adapter.cluster
  }

  async configuration(wanted = manifest()): Promise<Configuration> {
    await this.adapter.applyConfiguration(wanted)
    const key = objectKey(wanted.namespace, wanted.name)
    return eventually(() => found(this.cluster.configurations.get(key)))
  }

  /** The draft of an Instance with its own Configuration. */
  async draft(
    capacity: number,
    nodes: readonly NodeName[] = [NODE_A],
    spec: Partial<Instance['spec']> = {},
  ) {
    const draft = draftOf(await this.configuration(), capacity, nodes, '8120fe')
    return { ...draft, spec: { ...draft.spec, ...spec } }
  }

  async create(draft: ReturnType<typeof draftOf>): Promise<TestedInstance> {
    expect(await this.cluster.createInstance(draft)).toBe('created')
    const key = objectKey(draft.namespace, draft.name)
    await eventually(() => found(this.cluster.instances.get(key)))
    return new TestedInstance(this, draft, key)
  }

  async instance(capacity: number, nodes?: readonly NodeName[]): Promise<TestedInstance> {
    return this.create(await this.draft(capacity, nodes))
  }
}

function outcomeOf(claim: SlotClaim): string {
  return claim.outcome === 'taken' ? `taken by ${claim.by}` : claim.outcome
}

/** Claims by the index of the slot. */
type Usage = Readonly<Record<number | string, string>>

/** An Instance of the present test. */
export class TestedInstance {
  readonly draft: ReturnType<typeof draftOf>
  readonly key: ObjectKey
  readonly #tested: TestedCluster

  constructor(tested: TestedCluster, draft: ReturnType<typeof draftOf>, key: ObjectKey) {
    this.#tested = tested
    this.draft = draft
    this.key = key
  }

  get now(): Instance | undefined {
    return this.#cluster.instances.get(this.key)
  }

  get usage(): Usage {
    return Object.fromEntries(
      Object.entries(this.now?.spec.deviceUsage ?? {}).map(([slot, usage]) => [
        slot.replace(`${this.draft.name}-`, ''),
        usage,
      ]),
    )
  }

  /** Waits for the fields. */
  async shows(fields: { [Name in keyof Instance['spec']]?: unknown }): Promise<Instance> {
    await eventually(() => expect(this.now?.spec).toMatchObject(fields))
    return found(this.now)
  }

  async showsUsage(usage: Usage): Promise<Instance> {
    await eventually(() => expect(this.usage).toEqual(usage))
    return found(this.now)
  }

  isGone(): Promise<void> {
    return eventually(() => expect(this.now).toBeUndefined())
  }

  slot(index: number | string): SlotName {
    return `${this.draft.name}-${index}` as SlotName
  }

  join(node: NodeName, claims?: Usage) {
    const bySlot = Object.entries(claims ?? {}).map(([index, claim]) => [this.slot(index), claim])
    return this.#cluster.joinInstance(this.key, node, claims && Object.fromEntries(bySlot))
  }

  leave(node: NodeName) {
    return this.#cluster.leaveInstance(this.key, node)
  }

  update(fields: InstanceChange) {
    return this.#cluster.updateInstance(this.key, fields)
  }

  /** @returns such as `claimed` or `taken by node-a` */
  claim(index: number | string, usage: string, device?: string): Promise<string> {
    return this.#cluster.claimSlot(this.key, this.slot(index), usage, device).then(outcomeOf)
  }

  restore(index: number | string, usage: string): Promise<string> {
    return this.#cluster.restoreSlot(this.key, this.slot(index), usage).then(outcomeOf)
  }

  release(index: number | string, usage: string) {
    return this.#cluster.releaseSlot(this.key, this.slot(index), usage)
  }

  /** @param files of the workloads of a node, by the index of the slot */
  report(node: NodeName, files: Readonly<Record<number, object>>) {
    const workloads = Object.entries(files).map(([index, own]) => {
      const report = { files: new Map(Object.entries(own)), fresh: new Set<string>() }
      return [this.slot(index), report] as const
    })
    const reports = { workloads: new Map(workloads), abandoned: new Set<SlotName>() }
    return this.#cluster.reportBrokerInfo(this.key, node, reports)
  }

  showsInfo(info: object): Promise<void> {
    return eventually(() => expect(this.now?.status?.brokerInfo).toEqual(info))
  }

  get #cluster(): Cluster {
    return this.#tested.cluster
  }
}
