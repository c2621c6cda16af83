import type { Instance, InstanceName } from '@akrijs/api'
import { type ApiClient, type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { NodeGoneError } from '../errors.js'
import { instanceWith } from '../testing/objects.js'
import { KubernetesCluster } from './kubernetes-cluster.js'
import { nodeResourceNames } from './own-node.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'
const KEY = objectKey('default', 'cam-8120fe')
const NODE = 'node-a' as NodeName
const NODE_PATH = `/api/v1/nodes/${NODE}`

let clock: ManualClock
let server: FakeApiServer
let client: ApiClient
let cluster: KubernetesCluster
let logged: string[]

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  server = new FakeApiServer(clock)
  client = await server.open()
  logged = []
  const note = (_: unknown, message: string) => void logged.push(message)
  const log = { ...silentLogger, error: note, info: note }
  cluster = new KubernetesCluster({ client, clock, log, node: NODE })
  server.put(NODE_PATH, {})
  put([NODE])
  cluster.start()
  await cluster.instances.synced
})

afterEach(async () => {
  await cluster.close()
  await server.close()
})

function put(nodes: readonly NodeName[]): void {
  const metadata = { name: 'cam-8120fe' as InstanceName, uid: 'cam-8120fe' }
  const labels = { 'akri.sh/shared': 'true' }
  const spec: Partial<Instance['spec']> = { shared: true, nodes }
  server.put(INSTANCE, { ...instanceWith({}, spec, { ...metadata, labels }) })
}

const seen = (nodes: readonly string[] | undefined) =>
  eventually(() => expect(cluster.instances.get(KEY)?.spec.nodes).toEqual(nodes))
const join = () => cluster.joinInstance(KEY, NODE)
const requests = (method: string, path: string) =>
  server.requests.filter((request) => request.method === method && request.path === path).length

/** As the controller does it. */
async function takenOut(): Promise<void> {
  put([])
  await seen([])
}

describe('an agent that another program has taken out of an Instance', () => {
  it('joins again if its Node exists', async () => {
    await takenOut()
    expect(await join()).toBe('joined')
    expect(requests('GET', NODE_PATH)).toBe(1)
    await seen([NODE])
    expect(logged).toEqual([])
  })

  it('writes nothing while its Node is gone, asks for it rarely, and joins again', async () => {
    server.remove(NODE_PATH)
    await takenOut()
    const before = requests('PATCH', INSTANCE)
    for (let second = 0; second < 30; second++) {
      await expect(join()).rejects.toThrow(NodeGoneError)
      await clock.advance(1000)
    }
    expect(requests('PATCH', INSTANCE)).toBe(before)
    expect(requests('GET', NODE_PATH)).toBeLessThanOrEqual(4)
    server.put(NODE_PATH, {})
    await clock.advance(10_000)
    expect(await join()).toBe('joined')
    expect(logged).toEqual([
      'the Node was deleted: the agent is in no Instance until it exists again',
      'the Node exists again',
    ])
  })

  it('joins again if it may not ask for its Node', async () => {
    server.refusal = ({ path }) =>
      path === NODE_PATH ? { status: 403, message: 'forbidden' } : undefined
    await takenOut()
    expect(await join()).toBe('joined')
  })
})

it('an agent that leaves by itself does not ask for its Node', async () => {
  await cluster.leaveInstance(KEY, NODE)
  await seen(undefined)
  put([])
  await seen([])
  expect(await join()).toBe('joined')
  expect(requests('GET', NODE_PATH)).toBe(0)
})

it('the names of resources of a Node are those of its capacity and allocatable', async () => {
  const names = (node: string) => nodeResourceNames(client, node as NodeName)
  const status = { capacity: { cpu: '2', 'akri.sh/a': '0' }, allocatable: { 'akri.sh/b': '1' } }
  server.put('/api/v1/nodes/full', { status })
  server.put('/api/v1/nodes/empty', { status: {} })
  expect(await names('full')).toEqual(new Set(['cpu', 'akri.sh/a', 'akri.sh/b']))
  expect(await names('empty')).toEqual(new Set())
  expect(await names('none')).toBeUndefined()
})
