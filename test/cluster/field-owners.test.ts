import {
  INSTANCES,
  type Instance,
  leavePatch,
  parseInstanceObject,
  type SlotName,
} from '@akrijs/api'
import { type ApiClient, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KubernetesCluster } from '../../agent/src/cluster/kubernetes-cluster.js'
import { eventually } from '../support/eventually.js'
import { describeOnCluster, OwnNamespace, refusal } from './support/cluster.js'
import { instanceOf } from './support/instances.js'

const [NODE_A, GHOST] = ['node-a', 'ghost'] as [NodeName, NodeName]

interface Home {
  readonly client: ApiClient
  readonly namespace: string
  remove(): Promise<void>
}

/** Runs on the fake API server too: it must judge field owners as a real server does. */
function fieldOwners(open: () => Promise<Home>): void {
  let home: Home
  let cluster: KubernetesCluster

  beforeAll(async () => {
    home = await open()
    const { client } = home
    cluster = new KubernetesCluster({ client, clock: systemClock, log: silentLogger, node: NODE_A })
    cluster.start()
    await Promise.all([cluster.configurations.synced, cluster.instances.synced])
  })

  afterAll(async () => {
    await cluster.close()
    await home.remove()
  })

  it('C3 claims a slot that an existing agent applied and the controller freed', async () => {
    const api = new Resource(home.client, INSTANCES)
    const slot = 'c-8120fe-0' as SlotName
    const key = objectKey(home.namespace, 'c-8120fe')
    const shape = { capacity: 1, shared: true, nodes: [NODE_A, GHOST], deviceUsage: { [slot]: '' } }
    const created = instanceOf(home.namespace, 'c-8120fe', shape)
    // As our controller does.
    const labels = { 'akri.sh/shared': 'true' }
    await api.create(home.namespace, { ...created, metadata: { ...created.metadata, labels } })
    const claim = (node: NodeName) =>
      instanceOf(home.namespace, 'c-8120fe', { deviceUsage: { [slot]: node } })
    const applied = await api.apply(key, claim(GHOST), `${GHOST}-agent`)
    const instance: Instance = parseInstanceObject(applied) ?? expect.fail('no Instance')
    expect(instance.spec.deviceUsage).toEqual({ [slot]: GHOST })
    await api.patch(key, 'json', leavePatch(instance, GHOST))
    await eventually(() => expect(cluster.instances.get(key)?.spec.nodes).toEqual([NODE_A]))

    // The writer of the free slot owns it: a claim by server-side apply would fail for ever.
    const unforced = { fieldManager: `${NODE_A}-agent`, force: false }
    const path = `${api.path(home.namespace)}/c-8120fe`
    const body = claim(NODE_A)
    expect(
      await refusal(
        home.client.request({ method: 'PATCH', path, query: unforced, patch: 'apply', body }),
      ),
    ).toMatchObject({ status: 409 })
    expect(await cluster.claimSlot(key, slot, NODE_A)).toEqual({ outcome: 'claimed' })
    expect(await api.get(key)).toMatchObject({ spec: { deviceUsage: { [slot]: NODE_A } } })
  })
}

describe('owners of fields on the fake API server', () => {
  fieldOwners(async () => {
    const server = new FakeApiServer(systemClock)
    return { client: await server.open(), namespace: 'plant', remove: () => server.close() }
  })
})

describeOnCluster('owners of fields on an API server', () => {
  fieldOwners(async () => {
    const home = await OwnNamespace.make()
    return { client: home.client, namespace: home.name, remove: () => home.remove() }
  })
})
