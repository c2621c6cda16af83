import type { Compatibility } from '@akrijs/api'
import { type NodeName, objectKey, type ReconcileResult } from '@akrijs/kube'
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
const GRACE_MS = 300_000
const AGENT_VOLUMES = [{ name: 'v', hostPath: { path: '/var/lib/kubelet/device-plugins' } }]

describe('a lost node', () => {
  let api: TestApi
  let state: ClusterState
  let signal: AbortSignal

  beforeEach(() => {
    signal = new AbortController().signal
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

  async function lostNodes(
    clock: ManualClock,
    compatibility: Compatibility = 'off',
  ): Promise<LostNodes> {
    const term = await api.term(clock, { compatibility })
    state = term.state
    return new LostNodes(term, signal)
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

  it('is looked for in no Instance that does not name it', async () => {
    const nodes = await lostNodes(new ManualClock(T0))
    for (const { cache } of [state.instances, state.configurations])
      Object.assign(cache, { list: () => expect.fail('all objects were listed') })
    await nodes.reconcile('a' as NodeName, signal)
    expect(patches()).toHaveLength(1)
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

  it('A13 is asked about for no finalizer that no agent wrote', async () => {
    const finalizers = Array.from({ length: 2000 }, (_, index) => `x${index}`)
    const { metadata, spec } = testConfiguration()
    const managedFields = [{ manager: 'x7-fin', operation: 'Apply' }]
    api.put(CONFIGURATION, { metadata: { ...metadata, finalizers, managedFields }, spec })
    const nodes = await lostNodes(new ManualClock(T0))
    const added: string[] = []
    const key = objectKey('plant', 'cam')
    await nodes.reconcileConfiguration(key, (node) => added.push(node))
    expect(added).toEqual(['x7'])
  })

  it('R64 A13 leaves the rest if the API server refuses each write of one object', async () => {
    const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
    const finalizers = { finalizers: ['a'], managedFields }
    const { metadata, spec } = testConfiguration()
    api.put(CONFIGURATION, { metadata: { ...metadata, ...finalizers }, spec })
    const other = { ...metadata, name: 'dog', uid: 'uid-dog', ...finalizers }
    const OTHER = CONFIGURATION.replace('cam', 'dog')
    api.put(OTHER, { metadata: other, spec })
    const message = 'spec.capacity in body should be greater than or equal to 1'
    api.refusal = ({ method, path }) =>
      method === 'PATCH' && path === CONFIGURATION ? { status: 422, message } : undefined
    await expect(leave()).rejects.toThrow(message)
    expect(api.objects.get(OTHER)?.metadata).toMatchObject({ finalizers: [] })
    expect(api.objects.get(INSTANCE)).toMatchObject({ spec: { nodes: ['b'] } })
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
    // The clock of the API server is far behind.
    const clock = new ManualClock(T0 + 9 * GRACE_MS)
    const nodes = await lostNodes(clock)
    // An agent of the existing system may still run.
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: GRACE_MS })
    expect(patches()).toEqual([])
    await clock.advance(GRACE_MS)
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
    const path = '/metadata/finalizers/0'
    expect(patches()).toEqual([
      [
        { op: 'test', path, value: 'a' },
        { op: 'remove', path },
      ],
    ])
  })

  describe('finalizers of an agent of the existing system', () => {
    const agentPod = (namespace: string, name: string, status = 'True') =>
      api.put(`/api/v1/namespaces/${namespace}/pods/${name}`, {
        metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
        spec: { nodeName: 'a', volumes: AGENT_VOLUMES },
        status: { phase: 'Running', conditions: [{ type: 'Ready', status }] },
      })
    const finalized = (more: object = {}) => {
      const object = testInstance(['b'])
      const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
      const metadata = { ...object.metadata, finalizers: ['a'], managedFields, ...more }
      api.put(INSTANCE, { ...object, metadata })
    }
    const path = '/metadata/finalizers/0'
    const removal = [
      { op: 'test', path, value: 'a' },
      { op: 'remove', path },
    ]

    beforeEach(() => {
      api.put('/api/v1/nodes/a', node('True'))
      api.put('/apis/akri.sh/v0/nodereports/a', {
        metadata: { name: 'a' },
        agentPod: 'agent-a',
        agentNamespace: 'akri',
        configurations: {},
      })
      agentPod('akri', 'agent-a')
    })

    it.each([
      ['an object', {}],
      ['a deleted object', { deletionTimestamp: new Date(T0).toISOString() }],
    ])('A13 are removed from %s at once if our agent is on the node', async (_what, more) => {
      finalized(more)
      await leave()
      expect(patches()).toEqual([removal])
    })

    it.each<[string, () => unknown, string[]]>([
      ['if our agent is on the node', () => {}, ['a']],
      ['not if it is silent', () => agentPod('akri', 'agent-a', 'False'), []],
    ])('start the work on their node at once, %s', async (_what, change, expected) => {
      change()
      finalized()
      const nodes = await lostNodes(new ManualClock(T0))
      const added: string[] = []
      const key = objectKey('plant', 'cam-8120fe')
      await nodes.reconcileInstance(key, (name) => void added.push(name), signal)
      expect(added.filter((name) => name === 'a')).toEqual(expected)
    })

    it.each<[string, () => unknown]>([
      ['another agent is there too', () => agentPod('default', 'akri-agent-daemonset-x')],
      ['the Pod of our agent has gone', () => api.remove('/api/v1/namespaces/akri/pods/agent-a')],
      ['our agent has not reported', () => api.remove('/apis/akri.sh/v0/nodereports/a')],
    ])('stay if %s', async (_what, change) => {
      change()
      finalized()
      await leave()
      expect(patches()).toEqual([])
    })

    it('are removed beside a Pod of a user with the label of agents', async () => {
      api.put('/api/v1/namespaces/guest/pods/forged', {
        metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
        spec: { nodeName: 'a', volumes: [{ name: 'v', emptyDir: {} }] },
        status: { phase: 'Pending' },
      })
      finalized()
      await leave()
      expect(patches()).toEqual([removal])
    })

    it('are removed soon after an agent that is about to end', async () => {
      const other = '/api/v1/namespaces/default/pods/akri-agent-daemonset-x'
      agentPod('default', 'akri-agent-daemonset-x')
      finalized()
      const clock = new ManualClock(T0)
      const nodes = await lostNodes(clock)
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: 10_000 })
      // Its Pod has 30 s to end, and stays for longer.
      const { metadata, ...pod } = api.objects.get(other) ?? expect.fail('there is no Pod')
      const deletionTimestamp = new Date(T0 - GRACE_MS).toISOString()
      const deletion = { deletionTimestamp, deletionGracePeriodSeconds: 30 }
      api.put(other, { ...pod, metadata: { ...metadata, ...deletion } })
      for (const ms of [29_999, 0]) {
        expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: 10_000 })
        await clock.advance(ms)
      }
      expect(patches()).toEqual([])
      await clock.advance(1)
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
      expect(patches()).toEqual([removal])
    })

    it('are removed once in a grace period if an agent adds them again', async () => {
      const clock = new ManualClock(T0)
      const nodes = await lostNodes(clock)
      const add = async () => {
        finalized()
        const [before] = state.instances.cache.list()
        await eventually(() => {
          const [now] = state.instances.cache.list()
          expect(now?.metadata.finalizers).toEqual(['a'])
          expect(now).not.toBe(before)
        })
      }
      for (const expected of [1, 1, 1]) {
        await add()
        await nodes.reconcile('a' as NodeName, signal)
        expect(patches()).toHaveLength(expected)
      }
      await clock.advance(GRACE_MS)
      await nodes.reconcile('a' as NodeName, signal)
      expect(patches()).toHaveLength(2)
    })

    it('are removed from some objects in a pass, deleted objects first', async () => {
      api.remove(INSTANCE)
      const deletionTimestamp = new Date(T0).toISOString()
      for (let index = 0; index < 60; index++) {
        const object = testInstance(['b'], { name: `cam-${1000 + index}` })
        const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
        const deletion = index === 59 ? { deletionTimestamp } : {}
        const metadata = { ...object.metadata, finalizers: ['a'], managedFields, ...deletion }
        api.put(INSTANCE.replace('cam-8120fe', object.metadata.name), { ...object, metadata })
      }
      const nodes = await lostNodes(new ManualClock(T0))
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: 2000 })
      expect(patches()).toHaveLength(50)
      expect([...api.objects.keys()].filter((key) => key.endsWith('cam-1059'))).toEqual([])
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
      expect(patches()).toHaveLength(60)
    })
  })

  it('is removed once in a grace period if its agent runs and its kubelet does not', async () => {
    api.put('/api/v1/nodes/a', node('Unknown'))
    // The clock of the API server is far behind.
    const clock = new ManualClock(T0 + 9 * GRACE_MS)
    const nodes = await lostNodes(clock)
    expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: GRACE_MS })
    expect(patches()).toEqual([])
    await clock.advance(GRACE_MS)
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

  it('is removed with growing pauses if its agent runs and its Node was deleted', async () => {
    const clock = new ManualClock(T0)
    const nodes = await lostNodes(clock)
    const pauses: (number | undefined)[] = []
    for (let removals = 1; removals <= 10; removals++) {
      await nodes.reconcile('a' as NodeName, signal)
      expect(patches()).toHaveLength(removals)
      // The agent runs, and joins again.
      api.put(INSTANCE, { ...testInstance(['a', 'b']) })
      await eventually(() =>
        expect(state.instances.cache.list()[0]?.spec.nodes).toEqual(['a', 'b']),
      )
      const { requeueAfterMs } = await nodes.reconcile('a' as NodeName, signal)
      pauses.push(requeueAfterMs)
      await clock.advance(requeueAfterMs ?? 0)
    }
    expect(pauses.map((ms = 0) => ms / 1000)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
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

  describe('whose agent was taken off it', () => {
    const AGENT = '/api/v1/namespaces/akri/pods/agent-a'

    beforeEach(() => {
      api.put('/api/v1/nodes/a', node('True'))
      putReport()
    })

    const putReport = (agentNamespace: string | undefined = 'akri') =>
      api.put('/apis/akri.sh/v0/nodereports/a', {
        metadata: { name: 'a' },
        agentPod: 'agent-a',
        agentNamespace,
        configurations: {},
      })
    const putAgent = (path = AGENT) =>
      api.put(path, {
        metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
        spec: { nodeName: 'a', volumes: AGENT_VOLUMES },
        status: { phase: 'Running' },
      })
    const presence = () => state.reportIndex.presence('a' as NodeName)

    /** What the controller has removed at the end of the grace period. */
    async function removedAfter({ ms = GRACE_MS }): Promise<unknown[]> {
      const clock = new ManualClock(T0)
      const nodes = await lostNodes(clock)
      await nodes.reconcile('a' as NodeName, signal)
      await clock.advance(ms)
      await nodes.reconcile('a' as NodeName, signal)
      return patches()
    }

    it('stays until the grace period ends', async () => {
      expect(await removedAfter({ ms: GRACE_MS - 1 })).toEqual([])
    })

    it('stays if an agent of the existing system has its place, and both systems run', async () => {
      const clock = new ManualClock(T0)
      // In another namespace, without a report.
      putAgent(AGENT.replace('/akri/', '/default/').replace('agent-a', 'other'))
      const nodes = await lostNodes(clock, 'akri-0.13')
      await nodes.reconcile('a' as NodeName, signal)
      await clock.advance(GRACE_MS)
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
      expect(patches()).toEqual([])
      expect(presence()).toBe('left')
      api.remove(AGENT.replace('/akri/', '/default/').replace('agent-a', 'other'))
      await nodes.reconcile('a' as NodeName, signal)
      expect(patches()).toEqual([
        [
          { op: 'test', path: '/spec/deviceUsage/cam-8120fe-0', value: 'a' },
          { op: 'remove', path: '/spec/deviceUsage/cam-8120fe-0' },
          { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
          { op: 'remove', path: '/spec/nodes/0' },
        ],
      ])
    })

    it('leaves with its claims when the grace period ends', async () => {
      const clock = new ManualClock(T0)
      const nodes = await lostNodes(clock)
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: GRACE_MS })
      await clock.advance(GRACE_MS)
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({})
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

    it.each<[string, () => void]>([
      ['its Pod is there, and not ready', () => putAgent()],
      ['another agent is on it', () => putAgent(AGENT.replace('agent-a', 'agent-b'))],
      ['its agent was in another namespace', () => putReport('other')],
      ['its report does not say where its agent was', () => putReport('')],
      ['it has no report', () => api.remove('/apis/akri.sh/v0/nodereports/a')],
    ])('stays if %s', async (_, put) => {
      put()
      expect(await removedAfter({})).toEqual([])
    })

    it('stays if its agent comes back in the grace period', async () => {
      const clock = new ManualClock(T0)
      const nodes = await lostNodes(clock)
      await nodes.reconcile('a' as NodeName, signal)
      await clock.advance(GRACE_MS - 1)
      putAgent()
      await eventually(() => expect(presence()).toBe('silent'))
      await nodes.reconcile('a' as NodeName, signal)
      api.remove(AGENT)
      await eventually(() => expect(presence()).toBe('left'))
      expect(await nodes.reconcile('a' as NodeName, signal)).toEqual({ requeueAfterMs: GRACE_MS })
      expect(patches()).toEqual([])
    })

    it('keeps the claims of Pods that still run', async () => {
      const limits = { 'akri.sh/cam-8120fe': '1' }
      api.put(`${PODS}/user`, {
        metadata: { name: 'user' },
        spec: { nodeName: 'a', containers: [{ resources: { limits } }] },
      })
      expect(await removedAfter({})).toEqual([
        [
          { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
          { op: 'remove', path: '/spec/nodes/0' },
        ],
      ])
    })
  })
})
