import { CONFIGURATIONS, INSTANCES, parseNodeReport } from '@akrijs/api'
import { type NodeName, objectKey, Resource } from '@akrijs/kube'
import type { FakeApiServer } from '@akrijs/kube/testing'
import { defineDiscoveryHandler } from '@akrijs/sdk/handler'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { NodeEnvironment } from '../testing/node-environment.js'

const NODES = ['node-a', 'node-b'] as [NodeName, NodeName]
const [BY_INSTANCE, BY_CONFIGURATION] = ['akri.sh/cam-8120fe', 'akri.sh/cam'] as const
const CONFIGURATION = objectKey('default', 'cam')
const KEY = objectKey('default', 'cam-8120fe')

const handler = defineDiscoveryHandler({
  name: 'lab',
  shared: true,
  details: z.unknown(),
  async *discover() {
    yield [{ id: 'foo0' }]
  },
})

/** A node with its kubelet, and its agent on an API server. */
interface TestNode {
  readonly home: NodeEnvironment
  readonly start: () => Promise<void>
}

async function nodeOf(node: NodeName): Promise<TestNode> {
  const home = await NodeEnvironment.open()
  const embedded = [{ name: 'lab', load: async () => handler }]
  return { home, start: () => home.start({ node, cluster: kubernetes.start(node), embedded }) }
}

let kubernetes: FakeKubernetes
let server: FakeApiServer
let nodes: TestNode[]

beforeEach(async () => {
  kubernetes = await FakeKubernetes.open()
  server = kubernetes.server
  server.put('/apis/akri.sh/v0/namespaces/default/configurations/cam', {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    spec: { discoveryHandler: { name: 'lab', discoveryDetails: '' }, capacity: 3 },
  })
  for (const name of NODES) server.put(`/api/v1/nodes/${name}`, {})
  nodes = await Promise.all(NODES.map(nodeOf))
  for (const node of nodes) await node.start()
})

afterEach(async () => {
  for (const { home } of nodes) await home.close()
  await kubernetes.close()
})

const offered = () =>
  [BY_INSTANCE, BY_CONFIGURATION].map((resource) =>
    nodes.flatMap(({ home }) => home.allocatable(resource)),
  )
const offers = (...expected: number[][]) => eventually(() => expect(offered()).toEqual(expected))
const instance = () =>
  server.objects.get('/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe') ??
  expect.fail('no Instance')
const statuses = () =>
  NODES.map((name) => {
    const report = server.objects.get(`/apis/akri.sh/v0/nodereports/${name}`)
    return parseNodeReport(report)?.configurations[CONFIGURATION]
  })

it('A10 A13 R7 R84 an Instance is not offered while a finalizer holds its deletion', async () => {
  const [a = expect.fail(), b = expect.fail()] = nodes
  const both = expect.arrayContaining(NODES)
  await offers([3, 3], [1, 1])
  await eventually(() => expect(instance().spec).toMatchObject({ nodes: both }))
  await a.home.admit('p', BY_INSTANCE)
  await b.home.admit('q', BY_CONFIGURATION)
  const { metadata, spec } = structuredClone(instance())
  const { deviceUsage } = spec as { readonly deviceUsage: Record<string, string> }
  const held = Object.entries(deviceUsage).filter(([, usage]) => usage !== '')
  expect(held.map(([, usage]) => usage).sort()).toEqual([`C:0:${NODES[1]}`, NODES[0]])

  const instances = new Resource(kubernetes.client, INSTANCES)
  await instances.patch(KEY, 'merge', { metadata: { finalizers: ['node-of-old'] } })
  await instances.delete(KEY)
  // Only what p and q hold stays healthy: the device is there.
  await offers([1, 0], [0, 1])
  // Changes that agents would write to a normal Instance.
  const edit = { capacity: 4, brokerProperties: { SITE: 'north' } }
  const configurations = new Resource(kubernetes.client, CONFIGURATIONS)
  await configurations.patch(CONFIGURATION, 'merge', { spec: edit })
  const message = expect.stringContaining('cam-8120fe: node-of-old')
  const ready = { type: 'Ready', status: 'False', reason: 'InstanceBeingDeleted', message }
  const conditions = expect.arrayContaining([expect.objectContaining(ready)])
  const status = expect.objectContaining({ observedGeneration: 2, conditions })
  await eventually(() => expect(statuses()).toEqual([status, status]))
  await expect(a.home.admit('later-a', BY_INSTANCE)).rejects.toThrow()
  // An agent that starts now meets the same state.
  await a.home.stop()
  await eventually(() => expect(offered()[0]?.[0]).toBe(0))
  await a.start()
  await offers([1, 0], [0, 1])
  expect(instance().metadata.uid).toBe(metadata.uid)
  expect(instance().spec).toEqual(spec)

  await instances.patch(KEY, 'merge', { metadata: { finalizers: null } })
  await eventually(() => {
    const recreated = instance()
    expect(recreated.metadata.uid).not.toBe(metadata.uid)
    const claims = { deviceUsage: Object.fromEntries(held) }
    expect(recreated.spec).toMatchObject({ ...edit, nodes: both, ...claims })
    // Of the slots of node-b, q holds one by the Configuration.
    expect(offered()[0]).toEqual([3, 2])
  })
  await a.home.admit('later-a', BY_INSTANCE)
  await b.home.admit('later-b', BY_INSTANCE)
})
