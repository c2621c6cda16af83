import { type ConfigurationName, INSTANCES, type Instance, parseNodeReport } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Clock, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { kubernetesClusterUnderTest } from '../testing/kubernetes-under-test.js'
import {
  CAMERA,
  configurationWith,
  draftOf,
  instanceWith,
  NODE,
  OTHER,
  slot,
} from '../testing/objects.js'
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
const SHARED = { 'akri.sh/shared': 'true' }
let home: FakeKubernetes
let server: FakeApiServer

async function open(clock?: Clock): Promise<void> {
  home = await FakeKubernetes.open(clock)
  server = home.server
}

beforeEach(() => open())

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
    nodes = [NODE, OTHER],
  ): Promise<void> {
    server.put(PATH, { ...instanceWith(deviceUsage, { capacity, nodes }) })
    ;[late, other] = [home.start(NODE), home.start(OTHER)]
    await eventually(() => {
      for (const { instances } of [late, other]) expect(instances.get(CAMERA)).toBeDefined()
    })
    server.isSilent = true
  }

  const usage = () => (server.objects.get(PATH) as unknown as Instance).spec.deviceUsage

  it('R80 R85 claims a released slot, and leaves the claims of the other node', async () => {
    await start({ [slot(0)]: OTHER, [slot(1)]: '', [slot(2)]: NODE }, 3)
    expect(await other.releaseSlot(CAMERA, slot(0), OTHER)).toBe('released')
    expect(late.instances.get(CAMERA)?.spec.deviceUsage[slot(0)]).toBe(OTHER)
    expect(await late.claimSlot(CAMERA, slot(0), NODE)).toEqual({ outcome: 'claimed' })
    await other.releaseSlot(CAMERA, slot(2), NODE)
    for (const index of [1, 2]) await other.claimSlot(CAMERA, slot(index), OTHER)
    expect(await late.releaseSlot(CAMERA, slot(2), NODE)).toBe('changed')
    expect(await late.claimSlot(CAMERA, slot(1), NODE)).toEqual({ outcome: 'taken', by: OTHER })
    expect(usage()).toEqual({ [slot(0)]: NODE, [slot(1)]: OTHER, [slot(2)]: OTHER })
  })

  it('A10 does not delete an Instance that the other node has joined', async () => {
    await start({}, 2, [NODE])
    server.put(PATH, { ...instanceWith({}, { nodes: [NODE, OTHER] }) })
    expect(await late.leaveInstance(CAMERA, NODE)).toBe('left')
    expect(server.objects.get(PATH)).toMatchObject({ spec: { nodes: [OTHER] } })
  })

  it('A20 claims no slot more than the capacity while claims are beyond the capacity', async () => {
    await start({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: OTHER })
    await other.claimSlot(CAMERA, slot(1), OTHER)
    expect(await late.claimSlot(CAMERA, slot(0), NODE)).toEqual({ outcome: 'gone' })
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: OTHER, [slot(2)]: OTHER })
  })

  it.each([
    ['removes', 1, 2, [slot(0)]],
    ['keeps', 2, 1, [slot(0), slot(1)]],
  ])(
    'A20 %s a released slot by the capacity that the other node has written',
    async (_, capacity, before, slots) => {
      await start({ [slot(0)]: '', [slot(1)]: NODE }, before)
      await other.updateInstance(CAMERA, { capacity })
      expect(await late.releaseSlot(CAMERA, slot(1), NODE)).toBe('released')
      expect(Object.keys(usage())).toEqual(slots)
    },
  )
})

it('an Instance that agents of the existing system read too has their form in all', async () => {
  server.put('/api/v1/nodes/node-a', { metadata: { name: NODE } })
  const cluster = home.start(NODE, { compatibility: 'akri-0.13' })
  const owner = configurationWith({}, { name: 'cam' as ConfigurationName })
  const draft = draftOf(owner, 3, [NODE, OTHER], '8120fe')
  const claim = { outcome: 'claimed' }
  // It has claims of its capacity, and no free slots.
  const others = { [slot(2)]: OTHER }
  const both = { ...others, [slot(0)]: NODE }
  const created = { ...draft.spec, deviceUsage: { ...others, [slot(3)]: NODE } }
  const joining = { [slot(0)]: NODE, [slot(3)]: NODE }
  const steps: [() => Promise<unknown>, unknown, usage: object, capacity?: number][] = [
    [() => cluster.createInstance({ ...draft, spec: created }), 'created', others],
    [() => cluster.claimSlot(CAMERA, slot(0), NODE), claim, both],
    [() => cluster.releaseSlot(CAMERA, slot(0), NODE), 'released', others],
    // It gets no lost claim beyond its capacity back.
    [() => cluster.restoreSlot(CAMERA, slot(3), NODE), { outcome: 'gone' }, others],
    [() => cluster.restoreSlot(CAMERA, slot(1), NODE), claim, { ...others, [slot(1)]: NODE }],
    [() => cluster.leaveInstance(CAMERA, NODE), 'left', others],
    [() => cluster.joinInstance(CAMERA, NODE, joining), 'joined', both],
    // It gets a lower capacity when no slot beyond it is claimed.
    [() => cluster.updateInstance(CAMERA, { capacity: 1 }), 'deferred', both],
    [() => cluster.releaseSlot(CAMERA, slot(2), OTHER), 'released', { [slot(0)]: NODE }],
    [() => cluster.updateInstance(CAMERA, { capacity: 1 }), 'updated', { [slot(0)]: NODE }, 1],
  ]
  for (const [change, outcome, deviceUsage, capacity = 3] of steps) {
    expect(await change()).toEqual(outcome)
    const spec = cluster.instances.get(CAMERA)?.spec
    expect([spec?.deviceUsage, spec?.capacity]).toEqual([deviceUsage, capacity])
  }
})

it('the known nodes are the most that one object shows, counted once a second', async () => {
  const clock = new ManualClock(1_000_000)
  await open(clock)
  const lab = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
  server.put(lab, { ...configurationWith(), status: { nodeCounts: { reporting: 30 } } })
  const cluster = home.start(NODE)
  expect(cluster.knownNodes).toBe(1)
  // An invalid Configuration asks for the number before the first list is complete.
  await cluster.configurations.synced
  expect(cluster.knownNodes).toBe(30)
  server.put(PATH, { ...instanceWith({}, { nodes: [NODE, OTHER] }, { labels: SHARED }) })
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
  put(...others, NODE)
  const cluster = home.start(NODE)
  await cluster.instances.synced
  expect(await cluster.leaveInstance(CAMERA, NODE)).toBe('asked')
  const wish = () => parseNodeReport(server.objects.get(REPORT))?.memberships?.[CAMERA]?.wish
  await eventually(() => expect(wish()).toBe('leave'))
  // As the controller does.
  put(...others)
  await eventually(() => expect(cluster.instances.get(CAMERA)?.spec.nodes).toEqual(others))
  server.requests.length = 0
  expect(await cluster.joinInstance(CAMERA, NODE, { [slot(0)]: NODE })).toBe('joined')
  const patched = server.requests.flatMap(({ method, path }) => (method === 'PATCH' ? path : []))
  expect(patched).toEqual([REPORT, PATH])
})
