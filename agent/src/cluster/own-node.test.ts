import type { NodeName } from '@akrijs/kube'
import type { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { NodeGoneError } from '../errors.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { CAMERA, instanceWith, NODE } from '../testing/objects.js'
import type { KubernetesCluster } from './kubernetes-cluster.js'
import { nodeResourceNames } from './own-node.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'
const NODE_PATH = `/api/v1/nodes/${NODE}`

let clock: ManualClock
let home: FakeKubernetes
let server: FakeApiServer
let cluster: KubernetesCluster

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  home = await FakeKubernetes.open(clock)
  server = home.server
  server.put(NODE_PATH, {})
  put([NODE])
  cluster = home.start(NODE)
  await cluster.instances.synced
})

function put(nodes: readonly NodeName[]): void {
  const metadata = { uid: 'cam-8120fe', labels: { 'akri.sh/shared': 'true' } }
  server.put(INSTANCE, { ...instanceWith({}, { nodes }, metadata) })
}

const seen = (nodes: readonly string[] | undefined) =>
  eventually(() => expect(cluster.instances.get(CAMERA)?.spec.nodes).toEqual(nodes))
const join = () => cluster.joinInstance(CAMERA, NODE)
const requests = (method: string, path: string) =>
  server.requests.filter((request) => request.method === method && request.path === path).length

/** As the controller does it. */
async function takenOut(): Promise<void> {
  put([])
  await seen([])
}

describe('an agent that another program has taken out of an Instance', () => {
  it('R99 joins again if its Node exists, for which it asks each time', async () => {
    await takenOut()
    expect(await join()).toBe('joined')
    expect(requests('GET', NODE_PATH)).toBe(1)
    await seen([NODE])
    expect(home.logged).toEqual([])
    server.remove(NODE_PATH)
    await takenOut()
    await expect(join()).rejects.toThrow(NodeGoneError)
  })

  it('writes nothing while its Node is gone, asks for it rarely, and joins again', async () => {
    server.remove(NODE_PATH)
    await takenOut()
    const before = requests('PATCH', INSTANCE)
    for (let second = 0; second < 30; second++) {
      // The controller takes it out of one Instance after the other.
      put([NODE])
      await seen([NODE])
      await takenOut()
      await expect(join()).rejects.toThrow(NodeGoneError)
      await clock.advance(1000)
    }
    expect(requests('PATCH', INSTANCE)).toBe(before)
    expect(requests('GET', NODE_PATH)).toBeLessThanOrEqual(4)
    server.put(NODE_PATH, {})
    await clock.advance(10_000)
    expect(await join()).toBe('joined')
    expect(home.logged).toEqual([
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
  await cluster.leaveInstance(CAMERA, NODE)
  await seen(undefined)
  put([])
  await seen([])
  expect(await join()).toBe('joined')
  expect(requests('GET', NODE_PATH)).toBe(0)
})

it('an agent that asked to leave reads no Node, although others leave first', async () => {
  const others = Array.from({ length: 100 }, (_, index) => `other-${index}` as NodeName)
  put([NODE, ...others])
  await seen([NODE, ...others])
  expect(await cluster.leaveInstance(CAMERA, NODE)).toBe('asked')
  for (const nodes of [[NODE, ...others.slice(1)], others.slice(1)]) {
    put(nodes)
    await seen(nodes)
  }
  expect(await join()).toBe('asked')
  expect(requests('GET', NODE_PATH)).toBe(0)
})

it('the names of resources of a Node are those of its capacity and allocatable', async () => {
  const names = (node: string) => nodeResourceNames(home.client, node as NodeName)
  const status = { capacity: { cpu: '2', 'akri.sh/a': '0' }, allocatable: { 'akri.sh/b': '1' } }
  server.put('/api/v1/nodes/full', { status })
  server.put('/api/v1/nodes/empty', { status: {} })
  expect(await names('full')).toEqual(new Set(['cpu', 'akri.sh/a', 'akri.sh/b']))
  expect(await names('empty')).toEqual(new Set())
  expect(await names('none')).toBeUndefined()
})
