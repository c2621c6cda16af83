import { API_VERSION, CONFIGURATIONS, INSTANCES, type SlotName } from '@akrijs/api'
import { NODES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { KubernetesCluster } from '../../agent/src/cluster/kubernetes-cluster.js'
import { draftOf, manifest } from '../../agent/src/testing/objects.js'
import { eventually } from '../support/eventually.js'
import { describeOnCluster, OwnNamespace } from './support/cluster.js'

const NODE_B = 'node-b' as NodeName

describeOnCluster('a deleted Instance that a finalizer holds', () => {
  let home: OwnNamespace
  let cluster: KubernetesCluster
  /** The node of the agent. */
  let nodeA: NodeName

  beforeAll(async () => {
    home = await OwnNamespace.make()
    nodeA = `${home.name}-a` as NodeName
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: nodeA } }
    // An agent whose Node does not exist stays out of Instances.
    await new Resource(home.client, NODES).create('', node)
    cluster = new KubernetesCluster({
      client: home.client,
      clock: systemClock,
      log: silentLogger,
      node: nodeA,
    })
    cluster.start()
    await Promise.all([cluster.configurations.synced, cluster.instances.synced])
  })

  afterAll(async () => {
    await cluster.close()
    await new Resource(home.client, NODES).delete(objectKey('', nodeA))
    await home.remove()
  })

  it('A10 A13 accepts no node until it has gone; then all join with their claims', async () => {
    const api = new Resource(home.client, INSTANCES)
    const { name, spec } = manifest({ capacity: 2 })
    const object = {
      apiVersion: API_VERSION,
      kind: 'Configuration',
      metadata: { name, namespace: home.name },
      spec,
    }
    await new Resource(home.client, CONFIGURATIONS).apply(home.key(name), object, 'test')
    const owner = await eventually(
      () => cluster.configurations.get(home.key(name)) ?? expect.fail(),
    )
    const draft = draftOf(owner, 2, [nodeA], '8120fe')
    const key = home.key(draft.name)
    const slot = `${draft.name}-1` as SlotName
    expect(await cluster.createInstance(draft)).toBe('created')
    // As agents of the existing system do.
    const finalizers = { metadata: { name: draft.name, finalizers: [NODE_B] } }
    await api.apply(
      key,
      { apiVersion: API_VERSION, kind: 'Instance', ...finalizers },
      `${NODE_B}-fin`,
    )
    await api.delete(key)
    await eventually(() =>
      expect(cluster.instances.get(key)?.metadata.deletionTimestamp).toBeDefined(),
    )

    expect(await cluster.joinInstance(key, NODE_B)).toBe('gone')
    expect(await cluster.joinInstance(key, NODE_B, { [slot]: NODE_B })).toBe('gone')
    expect(
      await cluster.createInstance({ ...draft, spec: { ...draft.spec, nodes: [NODE_B] } }),
    ).toBe('exists')
    expect(cluster.instances.get(key)?.spec).toMatchObject({
      nodes: [nodeA],
      deviceUsage: { [slot]: '' },
    })

    await api.patch(key, 'merge', { metadata: { finalizers: null } })
    await eventually(() => expect(cluster.instances.get(key)).toBeUndefined())
    expect(await cluster.joinInstance(key, nodeA)).toBe('gone')
    expect(await cluster.createInstance(draft)).toBe('created')
    expect(await cluster.joinInstance(key, NODE_B, { [slot]: NODE_B })).toBe('joined')
    expect(cluster.instances.get(key)?.spec).toMatchObject({
      nodes: [nodeA, NODE_B],
      deviceUsage: { [slot]: NODE_B },
    })
  })
})
