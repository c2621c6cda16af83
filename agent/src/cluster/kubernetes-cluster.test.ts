import {
  type ConfigurationName,
  INSTANCES,
  type Instance,
  parseNodeReport,
  type SlotName,
} from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Clock, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { kubernetesClusterUnderTest } from '../testing/kubernetes-under-test.js'
import { configurationWith, draftOf, instanceWith } from '../testing/objects.js'
import { clusterContract } from './cluster.contract.js'
import { existingSystemContract } from './existing-system.contract.js'
import type { KubernetesCluster } from './kubernetes-cluster.js'

clusterContract('Kubernetes, on a fake API server', async () => {
  const server = new FakeApiServer(systemClock)
  const adapter = await kubernetesClusterUnderTest(await server.open())
  return {
    ...adapter,
    async removeConfiguration(configuration) {
      await adapter.removeConfiguration(configuration)
      // The garbage collector of a real cluster does this.
      for (const [path, { spec }] of server.objects) {
        const { configurationName } = (spec ?? {}) as Partial<Instance['spec']>
        if (path.includes(INSTANCES.plural) && configurationName === configuration.name)
          server.remove(path)
      }
    },
    async dispose() {
      await adapter.dispose()
      await server.close()
    },
  }
})

describe('an agent beside the existing system, on the fake API server', () => {
  existingSystemContract(async () => {
    const server = new FakeApiServer(systemClock)
    return { client: await server.open(), namespace: 'plant', remove: () => server.close() }
  })
})

const PATH = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'
const key = objectKey('default', 'cam-8120fe')
const SHARED = { 'akri.sh/shared': 'true' }
const slot = (index: number) => `cam-8120fe-${index}` as SlotName
const [NODE_A, NODE_B] = ['node-a', 'node-b'] as [NodeName, NodeName]
let home: FakeKubernetes
let server: FakeApiServer

async function open(clock?: Clock): Promise<void> {
  home = await FakeKubernetes.open(clock)
  server = home.server
}

beforeEach(() => open())
afterEach(() => home.close())

describe('the stale cache of a node', () => {
  let late: KubernetesCluster
  let other: KubernetesCluster

  /**
   * Both nodes see this Instance. Then the watches fall silent: only the other node sees its own
   * writes.
   */
  async function start(
    deviceUsage: Record<string, string>,
    capacity = 2,
    nodes = [NODE_A, NODE_B],
  ): Promise<void> {
    server.put(PATH, { ...instanceWith(deviceUsage, { capacity, nodes }) })
    ;[late, other] = [home.start(NODE_A), home.start(NODE_B)]
    await eventually(() => {
      for (const { instances } of [late, other]) expect(instances.get(key)).toBeDefined()
    })
    server.isSilent = true
  }

  const usage = () => (server.objects.get(PATH) as unknown as Instance).spec.deviceUsage

  it('R80 R85 claims a released slot, and leaves the claims of the other node', async () => {
    await start({ [slot(0)]: NODE_B, [slot(1)]: '', [slot(2)]: NODE_A }, 3)
    expect(await other.releaseSlot(key, slot(0), NODE_B)).toBe('released')
    expect(late.instances.get(key)?.spec.deviceUsage[slot(0)]).toBe(NODE_B)
    expect(await late.claimSlot(key, slot(0), NODE_A)).toEqual({ outcome: 'claimed' })
    await other.releaseSlot(key, slot(2), NODE_A)
    for (const index of [1, 2]) await other.claimSlot(key, slot(index), NODE_B)
    expect(await late.releaseSlot(key, slot(2), NODE_A)).toBe('changed')
    expect(await late.claimSlot(key, slot(1), NODE_A)).toEqual({ outcome: 'taken', by: NODE_B })
    expect(usage()).toEqual({ [slot(0)]: NODE_A, [slot(1)]: NODE_B, [slot(2)]: NODE_B })
  })

  it('A10 does not delete an Instance that the other node has joined', async () => {
    await start({}, 2, [NODE_A])
    server.put(PATH, { ...instanceWith({}, { nodes: [NODE_A, NODE_B] }) })
    expect(await late.leaveInstance(key, NODE_A)).toBe('left')
    expect(server.objects.get(PATH)).toMatchObject({ spec: { nodes: [NODE_B] } })
  })

  it('A20 claims no slot more than the capacity while claims are beyond the capacity', async () => {
    await start({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: NODE_B })
    await other.claimSlot(key, slot(1), NODE_B)
    expect(await late.claimSlot(key, slot(0), NODE_A)).toEqual({ outcome: 'gone' })
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: NODE_B, [slot(2)]: NODE_B })
  })

  it.each([
    ['removes', 1, 2, [slot(0)]],
    ['keeps', 2, 1, [slot(0), slot(1)]],
  ])(
    'A20 %s a released slot by the capacity that the other node has written',
    async (_, capacity, before, slots) => {
      await start({ [slot(0)]: '', [slot(1)]: NODE_A }, before)
      await other.updateInstance(key, { capacity })
      expect(await late.releaseSlot(key, slot(1), NODE_A)).toBe('released')
      expect(Object.keys(usage())).toEqual(slots)
    },
  )
})

it('an Instance that agents of the existing system read too has their form in all', async () => {
  server.put('/api/v1/nodes/node-a', { metadata: { name: NODE_A } })
  const cluster = home.start(NODE_A, { compatibility: 'akri-0.13' })
  const owner = configurationWith({}, { name: 'cam' as ConfigurationName })
  const draft = draftOf(owner, 3, [NODE_A, NODE_B], '8120fe')
  const claim = { outcome: 'claimed' }
  // It has claims of its capacity, and no free slots.
  const others = { [slot(2)]: NODE_B }
  const both = { ...others, [slot(0)]: NODE_A }
  const created = { ...draft.spec, deviceUsage: { ...others, [slot(3)]: NODE_A } }
  const joining = { [slot(0)]: NODE_A, [slot(3)]: NODE_A }
  const steps: [() => Promise<unknown>, unknown, usage: object, capacity?: number][] = [
    [() => cluster.createInstance({ ...draft, spec: created }), 'created', others],
    [() => cluster.claimSlot(key, slot(0), NODE_A), claim, both],
    [() => cluster.releaseSlot(key, slot(0), NODE_A), 'released', others],
    // It gets no lost claim beyond its capacity back.
    [() => cluster.restoreSlot(key, slot(3), NODE_A), { outcome: 'gone' }, others],
    [() => cluster.restoreSlot(key, slot(1), NODE_A), claim, { ...others, [slot(1)]: NODE_A }],
    [() => cluster.leaveInstance(key, NODE_A), 'left', others],
    [() => cluster.joinInstance(key, NODE_A, joining), 'joined', both],
    // It gets a lower capacity when no slot beyond it is claimed.
    [() => cluster.updateInstance(key, { capacity: 1 }), 'deferred', both],
    [() => cluster.releaseSlot(key, slot(2), NODE_B), 'released', { [slot(0)]: NODE_A }],
    [() => cluster.updateInstance(key, { capacity: 1 }), 'updated', { [slot(0)]: NODE_A }, 1],
  ]
  for (const [change, outcome, deviceUsage, capacity = 3] of steps) {
    expect(await change()).toEqual(outcome)
    const spec = cluster.instances.get(key)?.spec
    expect([spec?.deviceUsage, spec?.capacity]).toEqual([deviceUsage, capacity])
  }
})

it('the known nodes are the most that one object shows, counted once a second', async () => {
  const clock = new ManualClock(1_000_000)
  await home.close()
  await open(clock)
  const lab = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
  server.put(lab, { ...configurationWith(), status: { nodeCounts: { reporting: 30 } } })
  const cluster = home.start(NODE_A)
  expect(cluster.knownNodes).toBe(1)
  // An invalid Configuration asks for the number before the first list is complete.
  await cluster.configurations.synced
  expect(cluster.knownNodes).toBe(30)
  server.put(PATH, { ...instanceWith({}, { nodes: [NODE_A, NODE_B] }, { labels: SHARED }) })
  server.remove(lab)
  await eventually(() => expect(cluster.configurations.list()).toEqual([]))
  await eventually(() => expect(cluster.instances.list()).toHaveLength(1))
  expect(cluster.knownNodes).toBe(30)
  await clock.advance(1000)
  expect(cluster.knownNodes).toBe(2)
})

it('A10 R84 a node takes back its wish to leave before it joins with claims', async () => {
  const REPORT = '/apis/akri.sh/v0/nodereports/node-a'
  const others = Array.from({ length: 10 }, (_, index) => `other-${index}` as NodeName)
  const put = (...nodes: NodeName[]) =>
    server.put(PATH, { ...instanceWith({}, { nodes }, { labels: SHARED }) })
  server.put('/api/v1/nodes/node-a', {})
  put(...others, NODE_A)
  const cluster = home.start(NODE_A)
  await cluster.instances.synced
  expect(await cluster.leaveInstance(key, NODE_A)).toBe('asked')
  const wish = () => parseNodeReport(server.objects.get(REPORT))?.memberships?.[key]?.wish
  await eventually(() => expect(wish()).toBe('leave'))
  // As the controller does.
  put(...others)
  await eventually(() => expect(cluster.instances.get(key)?.spec.nodes).toEqual(others))
  server.requests.length = 0
  expect(await cluster.joinInstance(key, NODE_A, { [slot(0)]: NODE_A })).toBe('joined')
  const patched = server.requests.flatMap(({ method, path }) => (method === 'PATCH' ? path : []))
  expect(patched).toEqual([REPORT, PATH])
})
