import type { NodeName } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestApi } from '../testing/api.js'
import { T0, testConfiguration, testInstance } from '../testing/objects.js'
import { GoneNodes } from './gone-nodes.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe'
const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const PODS = '/api/v1/pods'

describe('a node that has gone', () => {
  let api: TestApi

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

  async function goneNodes(clock: ManualClock): Promise<GoneNodes> {
    const { client, state } = await api.start()
    const { signal } = new AbortController()
    return new GoneNodes({ state, client, clock, log: silentLogger, signal })
  }

  async function leave(): Promise<number | undefined> {
    return (await goneNodes(new ManualClock(T0))).reconcile('a' as NodeName)
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

  it('R64 R103 leaves with its slots, by a write that tests what it builds on', async () => {
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

  it('takes an Instance with it that only it saw, unless somebody joins at this moment', async () => {
    const { resourceVersion } = api.put(INSTANCE, { ...testInstance(['a']) }).metadata as {
      resourceVersion: string
    }
    await leave()
    expect(api.sent('DELETE')).toMatchObject([
      { preconditions: { uid: 'uid-cam-8120fe', resourceVersion } },
    ])
  })

  it('keeps its slots while a Pod is there that may still run, and is looked at again', async () => {
    const limits = { 'akri.sh/cam': '1' }
    api.put(`${PODS}/user`, {
      metadata: { name: 'user' },
      spec: { containers: [{ resources: { limits } }] },
    })
    expect(await leave()).toBe(T0 + 10_000)
    expect(patches()).toEqual([
      [
        { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
        { op: 'remove', path: '/spec/nodes/0' },
      ],
    ])
  })

  it.each([
    [
      'the one that its agent of the existing system has left',
      ['x', 'a', 'akri.test/y'],
      'a-fin',
      1,
    ],
    ['none that somebody else has put there', ['a'], 'somebody', undefined],
  ])('A13 loses of finalizers %s', async (_what, finalizers, manager, index) => {
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

  it('A13 leaves no finalizer of it on what is being deleted, though the node is there, after the grace period', async () => {
    const object = testInstance(['b'])
    const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
    const deletionTimestamp = new Date(T0).toISOString()
    api.put(INSTANCE, {
      ...object,
      metadata: { ...object.metadata, finalizers: ['a'], managedFields, deletionTimestamp },
    })
    api.put('/api/v1/nodes/a', node('True'))
    const clock = new ManualClock(T0 + 299_000)
    const nodes = await goneNodes(clock)
    // An agent of the existing system may still be there.
    expect(await nodes.reconcile('a' as NodeName)).toBe(T0 + 300_000)
    expect(patches()).toEqual([])
    await clock.advance(1000)
    expect(await nodes.reconcile('a' as NodeName)).toBeUndefined()
    const path = '/metadata/finalizers/0'
    expect(patches()).toEqual([
      [
        { op: 'test', path, value: 'a' },
        { op: 'remove', path },
      ],
    ])
  })

  it('is no more in the status of Configurations, which stand as the others say, if it has been deleted', async () => {
    api.remove(INSTANCE)
    const says = (status: 'True' | 'False') => ({
      observedGeneration: 3,
      devices: 1,
      conditions: [{ type: 'Ready', status, reason: 'R', message: 'as said' }],
    })
    const known = {
      type: 'Ready',
      status: 'False',
      reason: 'R',
      message: 'as said',
      lastTransitionTime: '2025-01-01T00:00:00.000Z',
    }
    const status = {
      observedGeneration: 3,
      conditions: [known],
      devices: 1,
      slots: { total: 1, claimed: 0 },
      nodes: { a: says('False'), b: says('True') },
    }
    const { resourceVersion } = api.put(CONFIGURATION, { ...testConfiguration(), status })
      .metadata as { resourceVersion: string }
    await leave()
    const conditions = [
      { ...known, status: 'True', lastTransitionTime: new Date(T0).toISOString() },
    ]
    expect(patches()).toEqual([
      { metadata: { resourceVersion }, status: { conditions, nodes: { a: null } } },
    ])
  })

  it('is not taken out again and again where its agent lives and its kubelet does not', async () => {
    api.put('/api/v1/nodes/a', node('Unknown'))
    const clock = new ManualClock(T0 + 600_000)
    const nodes = await goneNodes(clock)
    await nodes.reconcile('a' as NodeName)
    expect(patches()).toHaveLength(1)
    // This API does not do what a JSON patch says: as if its agent had joined again.
    expect(await nodes.reconcile('a' as NodeName)).toBe(clock.wallMs() + 300_000)
    expect(patches()).toHaveLength(1)
    await clock.advance(300_000)
    await nodes.reconcile('a' as NodeName)
    expect(patches()).toHaveLength(2)
  })

  it('does not leave where somebody was faster: that brings it back', async () => {
    api.refusal = ({ method }) => {
      if (method !== 'PATCH') return undefined
      api.put(INSTANCE, { ...testInstance(['a', 'b', 'c']) })
      return { status: 422, message: 'the test failed' }
    }
    await expect(leave()).resolves.toBeUndefined()
  })

  it('is an error where nobody was faster: the write itself is refused', async () => {
    api.refusal = ({ method }) =>
      method === 'PATCH' ? { status: 422, message: 'spec.nodes: not so' } : undefined
    await expect(leave()).rejects.toThrow(/422.*spec\.nodes: not so/)
  })
})
