import type { NodeName, ReconcileResult } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { ClusterState } from '../cluster-state.js'
import { TestApi } from '../testing/api.js'
import { T0, testConfiguration, testInstance } from '../testing/objects.js'
import { LostNodes } from './lost-nodes.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe'
const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const PODS = '/api/v1/pods'

describe('a lost node', () => {
  let api: TestApi
  let state: ClusterState
  const { signal } = new AbortController()

  beforeEach(() => {
    api = new TestApi()
    const instance = testInstance(['a', 'b'])
    api.put(INSTANCE, {
      ...instance,
      spec: { ...instance.spec, deviceUsage: { 'cam-8120fe-0': 'a' } },
    })
  })

  afterEach(async () => {
    await api.stop()
  })

  async function lostNodes(clock: ManualClock): Promise<LostNodes> {
    const { client, ...started } = await api.start()
    state = started.state
    return new LostNodes({ state, client, clock, log: silentLogger, graceMs: 300_000 })
  }

  async function leave(): Promise<ReconcileResult> {
    return (await lostNodes(new ManualClock(T0))).reconcile('a' as NodeName, signal)
  }

  const node = (ready: 'True' | 'Unknown') => ({
    metadata: { name: 'a' },
    status: {
      conditions: [
        { type: 'Ready', status: ready, lastTransitionTime: new Date(T0).toISOString() },
      ],
    },
  })

  const patches = () => api.sent('PATCH')

  it('R64 R103 leaves with its claims, by a patch that tests the state it builds on', async () => {
    await leave()
    expect(patches()).toEqual([
      [
        { op: 'test', path: '/spec/deviceUsage/cam-8120fe-0', value: 'a' },
        { op: 'test', path: '/spec/capacity', value: 1 },
        { op: 'replace', path: '/spec/deviceUsage/cam-8120fe-0', value: '' },
        { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
        { op: 'remove', path: '/spec/nodes/0' },
      ],
    ])
  })

  it('R64 R103 leaves all its Instances', async () => {
    const other = testInstance(['a', 'b'])
    const metadata = { ...other.metadata, uid: 'uid-cam-a19705' }
    api.put(INSTANCE.replace('8120fe', 'a19705'), { ...other, metadata })
    await leave()
    const instances = [...api.objects].filter(([path]) => path.includes('/instances/'))
    expect(instances.map(([, { spec }]) => spec)).toEqual([
      expect.objectContaining({ nodes: ['b'] }),
      expect.objectContaining({ nodes: ['b'] }),
    ])
  })

  it('takes a deserted Instance with it, unless a node joins at the same moment', async () => {
    const { resourceVersion } = api.put(INSTANCE, { ...testInstance(['a']) }).metadata as {
      resourceVersion: string
    }
    await leave()
    expect(api.sent('DELETE')).toMatchObject([
      { preconditions: { uid: 'uid-cam-8120fe', resourceVersion } },
    ])
  })

  it('keeps its claims while a Pod of it may still run, and is checked again', async () => {
    const limits = { 'akri.sh/cam': '1' }
    api.put(`${PODS}/user`, {
      metadata: { name: 'user' },
      spec: { nodeName: 'a', containers: [{ resources: { limits } }] },
    })
    expect(await leave()).toEqual({ requeueAfterMs: 10_000 })
    expect(patches()).toEqual([
      [
        { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
        { op: 'remove', path: '/spec/nodes/0' },
      ],
    ])
  })

  it.each([
    ['the finalizer of an agent of the existing system', ['x', 'a', 'akri.test/y'], 'a-fin', 1],
    ['no finalizer of another program', ['a'], 'somebody', undefined],
  ])('A13 has removed from an object: %s', async (_what, finalizers, manager, index) => {
    const object = { ...testInstance(['b']) }
    const managedFields = [{ manager, operation: 'Apply' }]
    api.put(INSTANCE, { ...object, metadata: { ...object.metadata, finalizers, managedFields } })
    await leave()
    const path = `/metadata/finalizers/${index}`
    const removal = [
      { op: 'test', path, value: 'a' },
      { op: 'remove', path },
    ]
    expect(patches()).toEqual(index === undefined ? [] : [removal])
  })

  it('A13 has its finalizer removed from a deleted object after the grace period', async () => {
    const object = testInstance(['b'])
    const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
    const deletionTimestamp = new Date(T0).toISOString()
    api.put(INSTANCE, {
      ...object,
      metadata: { ...object.metadata, finalizers: ['a'], managedFields, deletionTimestamp },
    })
    api.put('/api/v1/nodes/a', node('True'))
    const clock = new ManualClock(T0 + 299_000)
    const nodes = await lostNodes(clock)
    // An agent of the existing system may still run.
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: 1000 })
    expect(patches()).toEqual([])
    await clock.advance(1000)
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
    const path = '/metadata/finalizers/0'
    expect(patches()).toEqual([
      [
        { op: 'test', path, value: 'a' },
        { op: 'remove', path },
      ],
    ])
  })

  it('is removed from the status of Configurations if it was deleted', async () => {
    api.remove(INSTANCE)
    const report = (status: 'True' | 'False') => ({
      observedGeneration: 3,
      devices: 1,
      conditions: [{ type: 'Ready', status, reason: 'R', message: 'text' }],
    })
    const condition = {
      type: 'Ready',
      status: 'False',
      reason: 'R',
      message: 'text',
      lastTransitionTime: '2025-01-01T00:00:00.000Z',
    }
    const status = {
      observedGeneration: 3,
      conditions: [condition],
      devices: 1,
      slots: { total: 1, claimed: 0 },
      nodes: { a: report('False'), b: report('True') },
    }
    const { resourceVersion } = api.put(CONFIGURATION, { ...testConfiguration(), status })
      .metadata as { resourceVersion: string }
    await leave()
    const conditions = [
      { ...condition, status: 'True', lastTransitionTime: new Date(T0).toISOString() },
    ]
    expect(patches()).toEqual([
      { metadata: { resourceVersion }, status: { conditions, nodes: { a: null } } },
    ])
  })

  it('is removed once in a grace period if its agent runs and its kubelet does not', async () => {
    api.put('/api/v1/nodes/a', node('Unknown'))
    const clock = new ManualClock(T0 + 600_000)
    const nodes = await lostNodes(clock)
    // The agent runs, and joins again.
    const rejoin = async () => {
      api.put(INSTANCE, { ...testInstance(['a', 'b']) })
      await eventually(() =>
        expect(state.instances.cache.list()[0]?.spec.nodes).toEqual(['a', 'b']),
      )
    }
    await nodes.reconcile('a' as NodeName, signal)
    expect(patches()).toHaveLength(1)
    await rejoin()
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: 300_000 })
    expect(patches()).toHaveLength(1)
    await clock.advance(300_000)
    await nodes.reconcile('a' as NodeName, signal)
    expect(patches()).toHaveLength(2)
  })

  it('does not leave if another write came first: its event starts a reconcile', async () => {
    api.refusal = ({ method }) => {
      if (method !== 'PATCH') return undefined
      api.put(INSTANCE, { ...testInstance(['a', 'b', 'c']) })
      return { status: 422, message: 'the test failed' }
    }
    await expect(leave()).resolves.toEqual({})
  })

  it('gives an error if no other write came first: the API server refuses the write', async () => {
    api.refusal = ({ method }) =>
      method === 'PATCH' ? { status: 422, message: 'spec.nodes: not so' } : undefined
    await expect(leave()).rejects.toThrow(/422.*spec\.nodes: not so/)
  })
})
