import { type Compatibility, type Instance, nodesOf } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { ClusterState } from '../cluster-state.js'
import type { Term } from '../term.js'
import { reconciled, TestApi } from '../testing/api.js'
import { CONFIGURATION, INSTANCE, T0, testConfiguration, testInstance } from '../testing/objects.js'
import { reconcileNode, suspectsOf } from './lost-nodes.js'

const REPORT = '/apis/akri.sh/v0/nodereports/a'
const AGENT = '/api/v1/namespaces/akri/pods/agent-a'
const OTHER_AGENT = '/api/v1/namespaces/default/pods/akri-agent-daemonset-x'
const GRACE_MS = 300_000
/** How often the Pods of a node are listed. */
const CHECK = { requeueAfterMs: 10_000 }
const NODE = 'a' as NodeName
const SLOT = 'cam-8120fe-0'
const DELETED = { deletionTimestamp: new Date(T0).toISOString() }

let api: TestApi
let state: ClusterState
let clock: ManualClock
let term: Term
const { signal } = new AbortController()

beforeEach(() => {
  api = new TestApi()
  // The clock of the API server is far behind.
  clock = new ManualClock(T0 + 9 * GRACE_MS)
  putInstance(['a', 'b'], { [SLOT]: 'a' })
})

afterEach(() => api.stop())

function putInstance(on: string[], deviceUsage: Instance['spec']['deviceUsage'] = {}, more = {}) {
  const { metadata, spec, ...rest } = testInstance(on)
  api.put(INSTANCE, {
    ...rest,
    metadata: { ...metadata, ...more },
    spec: { ...spec, deviceUsage },
  })
}

function putReport(agentNamespace = 'akri'): void {
  api.put(REPORT, { agentPod: 'agent-a', agentNamespace, configurations: {} })
}

function putAgent(path: string, status = 'True', more: object = {}): void {
  api.put(path, {
    metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' }, ...more },
    spec: { nodeName: 'a', volumes: [{ name: 'v', hostPath: { path: '/var/lib/kubelet' } }] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status }] },
  })
}

/** A Pod on the node that asks for a resource. */
function putUser(resource: string): void {
  const containers = [{ resources: { limits: { [resource]: '1' } } }]
  api.put('/api/v1/namespaces/plant/pods/user', { spec: { nodeName: 'a', containers } })
}

/** Metadata with a finalizer of an agent of Akri 0.13. */
const finalized = (finalizers = ['a'], manager = `${finalizers[0]}-fin`) => ({
  finalizers,
  managedFields: [{ manager, operation: 'Apply' }],
})

async function start(compatibility: Compatibility = 'off'): Promise<void> {
  term = await api.term(clock, { compatibility })
  state = term.state
}

const reconcile = () =>
  reconciled((recheckAfter) => reconcileNode(NODE, term, signal, recheckAfter))

async function started() {
  await start()
  return reconcile()
}

/** The nodes of the Instance that may be lost. */
function suspects(): NodeName[] {
  const [instance = expect.fail()] = state.instances.cache.list()
  return suspectsOf(instance, nodesOf(instance), state)
}

const spec = () => api.objects.get(INSTANCE)?.spec
const finalizers = (path = INSTANCE) => api.objects.get(path)?.metadata.finalizers
const patches = () => api.sent('PATCH')

describe('a lost node', () => {
  it('R64 R103 leaves all its Instances with its claims', async () => {
    const other = INSTANCE.replace('8120fe', 'a19705')
    api.put(other, { ...testInstance(['b', 'a'], { name: 'cam-a19705' }) })
    await started()
    expect(spec()).toMatchObject({ nodes: ['b'], deviceUsage: { [SLOT]: '' } })
    expect(api.objects.get(other)?.spec).toMatchObject({ nodes: ['b'] })
  })

  it('is looked for in no Instance that does not name it', async () => {
    await start()
    for (const { cache } of [state.instances, state.configurations])
      Object.assign(cache, { list: () => expect.fail('all objects were listed') })
    await reconcile()
    expect(patches()).toHaveLength(1)
  })

  it('takes a deserted Instance with it, unless a node joins at the same moment', async () => {
    putInstance(['a'])
    const { resourceVersion } = api.objects.get(INSTANCE)?.metadata ?? {}
    await started()
    expect(api.sent('DELETE')).toMatchObject([
      { preconditions: { uid: 'uid-cam-8120fe', resourceVersion } },
    ])
  })

  it.each(['akri.sh/cam', 'akri.sh/cam-8120fe'])(
    'keeps its claims while a Pod may still run with %s, and is checked again',
    async (resource) => {
      putUser(resource)
      expect(await started()).toEqual(CHECK)
      expect(spec()).toMatchObject({ nodes: ['b'], deviceUsage: { [SLOT]: 'a' } })
    },
  )

  it('does not leave if another write came first: its event starts a reconcile', async () => {
    api.refusal = ({ method }) => {
      if (method !== 'PATCH') return undefined
      putInstance(['a', 'b', 'c'])
      return { status: 422, message: 'the test failed' }
    }
    expect(await started()).toEqual({})
  })

  it('R64 A13 leaves the rest if the API server refuses each write of one object', async () => {
    const { metadata, spec: configuration } = testConfiguration()
    const other = CONFIGURATION.replace('cam', 'dog')
    for (const [path, name] of [
      [CONFIGURATION, 'cam'],
      [other, 'dog'],
    ] as const)
      api.put(path, {
        metadata: { ...metadata, ...finalized(), name, uid: `uid-${name}` },
        spec: configuration,
      })
    const message = 'spec.capacity in body should be greater than or equal to 1'
    api.refusal = ({ method, path }) =>
      method === 'PATCH' && path === CONFIGURATION ? { status: 422, message } : undefined
    await expect(started()).rejects.toThrow(message)
    expect(finalizers(other)).toEqual([])
    expect(spec()).toMatchObject({ nodes: ['b'] })
  })

  it('is removed once in a grace period if its agent runs and its kubelet does not', async () => {
    api.putNode('a', 'Unknown')
    expect(await started()).toEqual({ requeueAfterMs: GRACE_MS })
    expect(patches()).toEqual([])
    for (const removals of [1, 2]) {
      await clock.advance(GRACE_MS)
      await reconcile()
      expect(patches()).toHaveLength(removals)
      // The agent runs, and joins again.
      putInstance(['a', 'b'])
      await api.seen(state.instances, INSTANCE)
      expect(await reconcile()).toEqual({ requeueAfterMs: GRACE_MS })
      expect(patches()).toHaveLength(removals)
    }
  })

  it('is removed with growing pauses if its agent runs and its Node was deleted', async () => {
    await start()
    const pauses: number[] = []
    for (let removals = 1; removals <= 10; removals++) {
      await reconcile()
      expect(patches()).toHaveLength(removals)
      putInstance(['a', 'b'])
      await api.seen(state.instances, INSTANCE)
      const { requeueAfterMs = 0 } = await reconcile()
      pauses.push(requeueAfterMs / 1000)
      await clock.advance(requeueAfterMs)
    }
    expect(pauses).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    const pause = 'removal of a from plant/cam-8120fe'
    expect(term.sights.last(pause)).toBeDefined()
    await clock.advance(2 * GRACE_MS)
    term.sights.ageMs('another', 'fact')
    expect(term.sights.last(pause)).toBeUndefined()
  })
})

describe('a node whose agent was taken off it', () => {
  beforeEach(() => {
    api.putNode('a')
    putReport()
  })

  it('leaves with its claims when the grace period ends', async () => {
    expect(await started()).toEqual({ requeueAfterMs: GRACE_MS })
    await clock.advance(GRACE_MS - 1)
    expect(await reconcile()).toEqual({ requeueAfterMs: 1 })
    expect(patches()).toEqual([])
    await clock.advance(1)
    expect(await reconcile()).toEqual({})
    expect(spec()).toMatchObject({ nodes: ['b'], deviceUsage: { [SLOT]: '' } })
  })

  it('leaves also if another write of the Instance comes at the same moment', async () => {
    await started()
    await clock.advance(GRACE_MS)
    api.refusal = ({ method }) => {
      if (method !== 'PATCH') return undefined
      api.refusal = () => undefined
      putInstance(['a', 'b'], {}, { annotations: { 'akri.test/x': 'y' } })
      return undefined
    }
    await reconcile()
    await api.seen(state.instances, INSTANCE)
    expect(suspects()).toContain(NODE)
    await reconcile()
    expect(spec()).toMatchObject({ nodes: ['b'] })
  })

  it('stays beside an agent of Akri 0.13, and leaves its slots out after that', async () => {
    // In another namespace, without a report.
    putAgent(OTHER_AGENT)
    await start('akri-0.13')
    await reconcile()
    await clock.advance(GRACE_MS)
    expect(await reconcile()).toEqual({})
    expect(patches()).toEqual([])
    api.remove(OTHER_AGENT)
    await reconcile()
    expect(spec()).toMatchObject({ nodes: ['b'], deviceUsage: {} })
  })

  it.each<[string, () => void]>([
    ['its Pod is there, and not ready', () => putAgent(AGENT, 'False')],
    ['another agent is on it', () => putAgent(AGENT.replace('agent-a', 'agent-b'), 'False')],
    ['its agent was in another namespace', () => putReport('other')],
    ['its report does not say where its agent was', () => putReport('')],
    ['it has no report', () => api.remove(REPORT)],
  ])('stays if %s', async (_, put) => {
    put()
    await started()
    await clock.advance(GRACE_MS)
    await reconcile()
    expect(patches()).toEqual([])
  })

  it('stays if its agent comes back in the grace period', async () => {
    const untilAgentIs = (presence: string) =>
      eventually(() => expect(state.reportIndex.presence(NODE)).toBe(presence))
    await started()
    await clock.advance(GRACE_MS - 1)
    putAgent(AGENT, 'False')
    await untilAgentIs('silent')
    await reconcile()
    api.remove(AGENT)
    await untilAgentIs('left')
    expect(await reconcile()).toEqual({ requeueAfterMs: GRACE_MS })
    expect(patches()).toEqual([])
  })
})

describe('finalizers of an agent of Akri 0.13', () => {
  const putFinalized = (more: object = {}) => putInstance(['b'], {}, { ...finalized(), ...more })

  it.each([
    ['are removed from a node that was deleted', ['x', 'a', 'akri.test/y'], 'a-fin'],
    ['stay if another program wrote them', ['a'], 'somebody'],
  ])('A13 %s', async (_what, names, manager) => {
    putInstance(['b'], {}, finalized(names, manager))
    await started()
    const others = names.filter((name) => manager !== 'a-fin' || name !== 'a')
    expect(finalizers()).toEqual(others)
  })

  it('A13 lead to no node without an agent that wrote one', async () => {
    const names = Array.from({ length: 2000 }, (_, index) => `x${index}`)
    const { metadata, spec: configuration } = testConfiguration()
    const managed = finalized(names, 'x7-fin')
    api.put(CONFIGURATION, { metadata: { ...metadata, ...managed }, spec: configuration })
    await start()
    const [stored = expect.fail()] = state.configurations.cache.list()
    expect(suspectsOf(stored, [], state)).toEqual(['x7'])
  })

  describe('on a node that is ready', () => {
    beforeEach(() => {
      api.putNode('a')
      putReport()
      putAgent(AGENT)
    })

    it.each([
      ['an object', {}],
      ['a deleted object', DELETED],
    ])('A13 are removed from %s at once if our agent is on the node', async (_what, more) => {
      putFinalized(more)
      await started()
      expect(patches()).toHaveLength(1)
    })

    it.each<[string, () => unknown, string[]]>([
      ['if our agent is on the node', () => {}, ['a']],
      ['not if it is silent', () => putAgent(AGENT, 'False'), []],
    ])('start the work on their node at once, %s', async (_what, change, expected) => {
      change()
      putFinalized()
      await start()
      expect(suspects().filter((name) => name === 'a')).toEqual(expected)
    })

    it.each<[string, () => unknown]>([
      ['another agent is there too', () => putAgent(OTHER_AGENT)],
      ['the Pod of our agent has gone', () => api.remove(AGENT)],
      ['our agent has not reported', () => api.remove(REPORT)],
    ])('stay if %s', async (_what, change) => {
      change()
      putFinalized()
      await started()
      expect(finalizers()).toEqual(['a'])
    })

    it('are removed beside a Pod of a user with the label of agents', async () => {
      api.put('/api/v1/namespaces/guest/pods/forged', {
        metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
        spec: { nodeName: 'a', volumes: [{ name: 'v', emptyDir: {} }] },
        status: { phase: 'Pending' },
      })
      putFinalized()
      await started()
      expect(finalizers()).toEqual([])
    })

    it('are removed soon after an agent that is about to end', async () => {
      putAgent(OTHER_AGENT)
      putFinalized()
      expect(await started()).toEqual(CHECK)
      // Its Pod has 30 s to end, and stays for longer.
      const deletionTimestamp = new Date(T0 - GRACE_MS).toISOString()
      putAgent(OTHER_AGENT, 'True', { deletionTimestamp, deletionGracePeriodSeconds: 30 })
      for (const ms of [29_999, 0]) {
        expect(await reconcile()).toEqual(CHECK)
        await clock.advance(ms)
      }
      expect(finalizers()).toEqual(['a'])
      await clock.advance(1)
      expect(await reconcile()).toEqual({})
      expect(finalizers()).toEqual([])
    })

    it('are removed once in a grace period if an agent adds them again', async () => {
      await start()
      for (const expected of [1, 1, 1]) {
        putFinalized()
        await api.seen(state.instances, INSTANCE)
        await reconcile()
        expect(patches()).toHaveLength(expected)
      }
      await clock.advance(GRACE_MS)
      await reconcile()
      expect(patches()).toHaveLength(2)
    })

    it('are removed from some objects in a pass, deleted objects first', async () => {
      api.remove(INSTANCE)
      for (let index = 0; index < 60; index++) {
        const object = testInstance(['b'], { name: `cam-${1000 + index}` })
        const metadata = { ...object.metadata, ...finalized(), ...(index === 59 && DELETED) }
        api.put(INSTANCE.replace('cam-8120fe', object.metadata.name), { ...object, metadata })
      }
      expect(await started()).toEqual({ requeueAfterMs: 2000 })
      expect(patches()).toHaveLength(50)
      expect([...api.objects.keys()].filter((key) => key.endsWith('cam-1059'))).toEqual([])
      expect(await reconcile()).toEqual({})
      expect(patches()).toHaveLength(60)
    })
  })
})
