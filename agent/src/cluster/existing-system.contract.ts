import {
  API_VERSION,
  CONFIGURATIONS,
  type Configuration,
  INSTANCES,
  type Instance,
  leavePatch,
  parseInstanceObject,
  type SlotName,
} from '@akrijs/api'
import { type ApiClient, NODES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { draftOf, manifest } from '../testing/objects.js'
import { KubernetesCluster } from './kubernetes-cluster.js'

const [OTHER, GHOST] = ['node-b', 'ghost'] as [NodeName, NodeName]

interface Home {
  readonly client: ApiClient
  readonly namespace: string
  remove(): Promise<void>
}

/**
 * The contract of an API server, for an agent beside the existing system: the fake one and a real
 * one must judge field owners and finalizers alike.
 */
export function existingSystemContract(open: () => Promise<Home>): void {
  let home: Home
  let cluster: KubernetesCluster
  let instances: Resource
  /** The node of the agent. */
  let node: NodeName

  beforeAll(async () => {
    home = await open()
    const { client, namespace } = home
    instances = new Resource(client, INSTANCES)
    node = `${namespace}-a` as NodeName
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: node } }
    // An agent whose Node does not exist stays out of Instances.
    await new Resource(client, NODES).create('', object)
    cluster = new KubernetesCluster({ client, clock: systemClock, log: silentLogger, node })
    cluster.start()
    await Promise.all([cluster.configurations.synced, cluster.instances.synced])
  })

  afterAll(async () => {
    await cluster.close()
    await new Resource(home.client, NODES).delete(objectKey('', node))
    await home.remove()
  })

  async function configuration(): Promise<Configuration> {
    const { name, spec } = manifest({ capacity: 3 })
    const key = objectKey(home.namespace, name)
    const metadata = { name, namespace: home.namespace }
    const object = { apiVersion: API_VERSION, kind: 'Configuration', metadata, spec }
    await new Resource(home.client, CONFIGURATIONS).apply(key, object, 'test')
    return eventually(() => cluster.configurations.get(key) ?? expect.fail())
  }

  it('C3 claims a slot that an existing agent applied and the controller freed', async () => {
    const slot = 'c-8120fe-0' as SlotName
    const key = objectKey(home.namespace, 'c-8120fe')
    const shape = { capacity: 1, shared: true, nodes: [node, GHOST], deviceUsage: { [slot]: '' } }
    const instanceOf = (spec: object) => ({
      apiVersion: API_VERSION,
      kind: 'Instance',
      metadata: { name: 'c-8120fe', namespace: home.namespace },
      spec: { configurationName: 'c', cdiName: 'akri.sh/c=8120fe', capacity: 2, ...spec },
    })
    const created = instanceOf(shape)
    // As our controller does.
    const labels = { 'akri.sh/shared': 'true' }
    const metadata = { ...created.metadata, labels }
    await instances.create(home.namespace, { ...created, metadata })
    const claim = (by: NodeName) => instanceOf({ deviceUsage: { [slot]: by } })
    const applied = await instances.apply(key, claim(GHOST), `${GHOST}-agent`)
    const instance: Instance = parseInstanceObject(applied) ?? expect.fail('no Instance')
    expect(instance.spec.deviceUsage).toEqual({ [slot]: GHOST })
    await instances.patch(key, 'json', leavePatch(instance, GHOST))
    await eventually(() => expect(cluster.instances.get(key)?.spec.nodes).toEqual([node]))

    // The writer of the free slot owns it: a claim by server-side apply would fail for ever.
    const unforced = { fieldManager: `${node}-agent`, force: false }
    const path = `${instances.path(home.namespace)}/c-8120fe`
    const body = claim(node)
    await expect(
      home.client.request({ method: 'PATCH', path, query: unforced, patch: 'apply', body }),
    ).rejects.toMatchObject({ status: 409 })
    expect(await cluster.claimSlot(key, slot, node)).toEqual({ outcome: 'claimed' })
    expect(await instances.get(key)).toMatchObject({ spec: { deviceUsage: { [slot]: node } } })
  })

  it('A10 A13 joins no deleted Instance that a finalizer holds, but the next one', async () => {
    const draft = draftOf(await configuration(), 3, [node], '8120fe')
    const { name } = draft
    const key = objectKey(home.namespace, name)
    const slot = `${name}-1` as SlotName
    expect(await cluster.createInstance(draft)).toBe('created')
    // As agents of the existing system do.
    const finalizers = { metadata: { name, finalizers: [OTHER] } }
    const object = { apiVersion: API_VERSION, kind: 'Instance', ...finalizers }
    await instances.apply(key, object, `${OTHER}-fin`)
    await instances.delete(key)
    await eventually(() =>
      expect(cluster.instances.get(key)?.metadata.deletionTimestamp).toBeDefined(),
    )

    expect(await cluster.joinInstance(key, OTHER)).toBe('gone')
    expect(await cluster.joinInstance(key, OTHER, { [slot]: OTHER })).toBe('gone')
    expect(
      await cluster.createInstance({ ...draft, spec: { ...draft.spec, nodes: [OTHER] } }),
    ).toBe('exists')
    expect(cluster.instances.get(key)?.spec).toMatchObject({
      nodes: [node],
      deviceUsage: { [slot]: '' },
    })

    await instances.patch(key, 'merge', { metadata: { finalizers: null } })
    await eventually(() => expect(cluster.instances.get(key)).toBeUndefined())
    expect(await cluster.joinInstance(key, node)).toBe('gone')
    expect(await cluster.createInstance(draft)).toBe('created')
    expect(await cluster.joinInstance(key, OTHER, { [slot]: OTHER })).toBe('joined')
    expect(cluster.instances.get(key)?.spec).toMatchObject({
      nodes: [node, OTHER],
      deviceUsage: { [slot]: OTHER },
    })
  })
}
