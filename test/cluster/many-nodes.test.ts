import {
  API_VERSION,
  CONFIGURATIONS,
  type Configuration,
  INSTANCES,
  NODE_REPORTS,
  type SlotName,
} from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { KubernetesCluster } from '../../agent/src/cluster/kubernetes-cluster.js'
import { draftOf, manifest } from '../../agent/src/testing/objects.js'
import { describeOnCluster, OwnNamespace } from './support/cluster.js'

const NODES = Array.from({ length: 50 }, (_, index) => `node-${index}` as NodeName)
const CAPACITY = 5
const patience = { timeout: 45_000, interval: 50 }

describeOnCluster('fifty nodes on one API server', () => {
  let home: OwnNamespace
  let clusters: KubernetesCluster[]

  beforeAll(async () => {
    home = await OwnNamespace.make()
    // Each node has its own cache, as each agent has. An agent retries a request without an answer.
    // This test needs the answers, also of a busy server.
    const common = { client: home.client, clock: systemClock, log: silentLogger }
    clusters = NODES.map((node) => new KubernetesCluster({ ...common, node }, { answerMs: 60_000 }))
    for (const cluster of clusters) cluster.start()
    await Promise.all(
      clusters.flatMap(({ configurations, instances }) => [
        configurations.synced,
        instances.synced,
      ]),
    )
  })

  afterAll(async () => {
    await Promise.all(clusters.map((cluster) => cluster.close()))
    // No garbage collector removes reports of nodes that have never existed.
    const reports = new Resource(home.client, NODE_REPORTS)
    await Promise.all(NODES.map((node) => reports.delete(objectKey('', node))))
    await home.remove()
  })

  async function configuration(): Promise<Configuration> {
    const { name, spec } = manifest({ capacity: CAPACITY })
    const key = home.key(name)
    await new Resource(home.client, CONFIGURATIONS).apply(
      key,
      {
        apiVersion: API_VERSION,
        kind: 'Configuration',
        metadata: { name, namespace: home.name },
        spec,
      },
      'test',
    )
    return vi.waitFor(() => {
      for (const cluster of clusters) expect(cluster.configurations.get(key)).toBeDefined()
      return clusters[0]?.configurations.get(key) ?? expect.fail()
    }, patience)
  }

  /** An agent asks again until the change is made: no controller runs here. */
  const carriedOut = <T extends string>(change: () => Promise<T>) =>
    vi.waitFor(async () => {
      const outcome = await change()
      expect(outcome).not.toBe('asked')
      return outcome
    }, patience)

  /** The object as the server has it. */
  const raw = async (key: ObjectKey) =>
    (await new Resource(home.client, INSTANCES).get(key)) as
      | { metadata: object; spec: { nodes: string[]; deviceUsage: Record<string, string> } }
      | undefined

  it('R84 R98 A10 A13 lose no join, claim no slot twice, and the last deletes', async () => {
    const owner = await configuration()
    const draft = draftOf(owner, CAPACITY, [], '8120fe')
    const key = home.key(draft.name)
    const created = await Promise.all(
      clusters.map((cluster, index) =>
        cluster.createInstance({
          ...draft,
          spec: { ...draft.spec, nodes: [NODES[index] ?? expect.fail()] },
        }),
      ),
    )
    expect(created.filter((outcome) => outcome === 'created')).toHaveLength(1)
    const joined = await Promise.all(
      clusters.map((cluster, index) =>
        carriedOut(() => cluster.joinInstance(key, NODES[index] ?? expect.fail())),
      ),
    )
    expect(joined.filter((outcome) => outcome === 'already-joined')).toHaveLength(1)
    const now = await raw(key)
    expect(now?.spec.nodes.toSorted()).toEqual(NODES.toSorted())
    expect(now?.metadata).not.toHaveProperty('finalizers')

    const claims = await Promise.all(
      clusters.map((cluster, index) =>
        cluster.claimSlot(key, `${draft.name}-${index % CAPACITY}` as SlotName, NODES[index] ?? ''),
      ),
    )
    const winners = NODES.filter((_, index) => claims[index]?.outcome === 'claimed')
    expect(winners).toHaveLength(CAPACITY)
    expect(Object.values((await raw(key))?.spec.deviceUsage ?? {}).sort()).toEqual(
      winners.toSorted(),
    )

    const left = await Promise.all(
      clusters.map((cluster, index) =>
        carriedOut(() => cluster.leaveInstance(key, NODES[index] ?? expect.fail())),
      ),
    )
    expect(left.filter((outcome) => outcome === 'deleted')).toHaveLength(1)
    expect(await raw(key)).toBeUndefined()
    for (const cluster of clusters)
      await vi.waitFor(() => expect(cluster.instances.get(key)).toBeUndefined(), patience)
  })
})
