import {
  type Compatibility,
  type Configuration,
  type ConfigurationStatus,
  type NodeReport,
  type NodeStatus,
  parseConfigurationStatus,
} from '@akrijs/api'
import type { ObjectEvent } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { ClusterState } from '../cluster-state.js'
import { control } from '../controller.js'
import { TestApi } from '../testing/api.js'
import { T0, testConfiguration, testInstance } from '../testing/objects.js'

const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const REPORTS = '/apis/akri.sh/v0/nodereports'
const GRACE_MS = 300_000

let api: TestApi
let clock: ManualClock
let state: ClusterState
let turn: AbortController
let work: Promise<void> | undefined
let events: ObjectEvent[]

beforeEach(() => {
  api = new TestApi()
  clock = new ManualClock(T0)
  turn = new AbortController()
  events = []
  api.put(CONFIGURATION, { ...testConfiguration() })
})

afterEach(async () => {
  turn.abort()
  await work
  await api.stop()
})

async function start(compatibility: Compatibility = 'off'): Promise<void> {
  const started = await api.start(clock)
  state = started.state
  lead(started, compatibility)
}

/** The work of a replica that leads. */
function lead(
  { client }: Pick<Awaited<ReturnType<TestApi['start']>>, 'client'>,
  compatibility: Compatibility = 'off',
): void {
  const options = { state, client, clock, log: silentLogger, nodeGraceMs: GRACE_MS, compatibility }
  const record = (event: ObjectEvent) => void events.push(event)
  work = control({ ...options, events: { record } }, turn.signal)
}

/** Another replica takes over. */
async function leadAgain(): Promise<void> {
  turn.abort()
  await work
  turn = new AbortController()
  lead({ client: await api.open() })
}

function statusWith(status: 'True' | 'False' | 'Unknown', devices = 1): NodeStatus {
  const condition = { type: 'Ready', status, reason: 'R', message: 'text' } as const
  return { observedGeneration: 3, devices, conditions: [condition] }
}

function putNode(name: string, status: 'True' | 'Unknown' = 'True'): void {
  const conditions = [{ type: 'Ready', status, lastTransitionTime: new Date(T0).toISOString() }]
  api.put(`/api/v1/nodes/${name}`, { status: { conditions } })
}

type ReportedAgent = Partial<Pick<NodeReport, 'agentPod' | 'agentNamespace'>>

function putReport(
  node: string,
  status: NodeStatus,
  { uid = 'uid-cam', ...agent }: ReportedAgent & { uid?: string } = {},
): void {
  const configurations = { 'plant/cam': { uid, ...status } }
  api.put(`${REPORTS}/${node}`, { configurations, ...agent })
}

function putAgent(node: string, isReady: boolean, waiting?: { reason: string }): string {
  const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'False' }]
  const name = `agent-${node}`
  api.put(`/api/v1/namespaces/akri/pods/${name}`, {
    metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
    spec: { nodeName: node },
    status: { phase: 'Running', conditions, containerStatuses: [{ state: { waiting } }] },
  })
  return name
}

const current = () =>
  parseConfigurationStatus(api.objects.get(CONFIGURATION)) ?? expect.fail('it is gone')
const status = (): ConfigurationStatus => current().status ?? expect.fail('there is no status')
const ready = () => status().conditions.find(({ type }) => type === 'Ready')
const writes = () =>
  api.requests.filter(({ method, path }) => method === 'PATCH' && path.startsWith(CONFIGURATION))
/** Lets the clock go on until so many writes were sent. */
const untilWritten = (count: number) =>
  inSteps(
    clock,
    () => {
      expect(writes()).toHaveLength(count)
    },
    100,
  )
const hasSeen = (node: string, seen: NodeStatus) =>
  eventually(() => {
    const found = state.reports.cache.list().find(({ metadata }) => metadata.name === node)
    expect(Object.values(found?.configurations ?? {})).toMatchObject([seen])
  })

describe('the summary of a Configuration', () => {
  it('is written at once for the first report, and not for the next equal one', async () => {
    putNode('a')
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', { ...testInstance(['a']) })
    await start()
    putReport('a', statusWith('True'))
    await eventually(() => expect(writes()).toHaveLength(1))
    expect(status()).toMatchObject({
      observedGeneration: 3,
      devices: 1,
      slots: { total: 1, claimed: 0 },
      nodeCounts: { reporting: 1, ready: 1, silent: 0 },
      nodes: {},
    })
    for (const devices of [2, 3]) {
      putReport('a', statusWith('True', devices))
      await hasSeen('a', statusWith('True', devices))
      await clock.advance(10_000)
    }
    expect(writes()).toHaveLength(1)
  })

  it('removes entries of nodes that make no sense, and is not written again then', async () => {
    putNode('a')
    putReport('a', statusWith('True'))
    await start()
    await untilWritten(1)
    const { status: written, ...rest } = api.objects.get(CONFIGURATION) ?? expect.fail()
    const conditions = [{ type: 'Foreign', status: 'True', reason: 'R', message: 'text' }]
    const nodes = { b: { observedGeneration: 3, devices: 1, conditions } }
    api.put(CONFIGURATION, { ...rest, status: { ...(written as object), nodes } })
    await untilWritten(2)
    expect(writes()[1]?.body).toMatchObject({ status: { nodes: { b: null } } })
    expect(api.objects.get(CONFIGURATION)?.status).toMatchObject({ nodes: {} })
    for (const devices of [2, 3]) {
      putReport('a', statusWith('True', devices))
      await hasSeen('a', statusWith('True', devices))
      await clock.advance(10_000)
    }
    expect(writes()).toHaveLength(2)
  })

  it('keeps the conditions of other programs, also when its own change', async () => {
    putNode('a')
    putReport('a', statusWith('True'))
    await start()
    await untilWritten(1)
    const { status: written, ...rest } = api.objects.get(CONFIGURATION) ?? expect.fail()
    const other = {
      type: 'Calibrated',
      status: 'True',
      reason: 'R',
      message: 'text',
      lastTransitionTime: new Date(T0).toISOString(),
      observedGeneration: 3,
    }
    const conditions = [other, ...status().conditions]
    api.put(CONFIGURATION, { ...rest, status: { ...(written as object), conditions } })
    putReport('a', statusWith('False'))
    await untilWritten(2)
    expect(api.objects.get(CONFIGURATION)?.status).toMatchObject({
      conditions: [{ type: 'Ready', status: 'False' }, other],
    })
    await hasSeen('a', statusWith('False'))
    await clock.advance(10_000)
    expect(writes()).toHaveLength(2)
  })

  it('is written at most once in two seconds, however many nodes report', async () => {
    for (let node = 0; node < 40; node++) putNode(`node-${node}`)
    await start()
    for (let node = 0; node < 40; node++) putReport(`node-${node}`, statusWith('True'))
    await eventually(() => expect(writes()).toHaveLength(1))
    await hasSeen('node-39', statusWith('True'))
    await clock.advance(1899)
    expect(writes()).toHaveLength(1)
    await untilWritten(2)
    expect(status().nodeCounts).toEqual({ reporting: 40, ready: 40, silent: 0 })
    for (let second = 0; second < 4; second++) {
      for (let node = 0; node < 40; node++)
        putReport(`node-${node}`, statusWith(second % 2 === 0 ? 'False' : 'Unknown'))
      await hasSeen('node-39', statusWith(second % 2 === 0 ? 'False' : 'Unknown'))
      await clock.advance(1000)
    }
    expect(writes().length).toBeLessThanOrEqual(4)
  })

  it('of a new Instance waits for the report of its node, for a second at most', async () => {
    const putInstance = async (name: string, count: number) => {
      api.put(`/apis/akri.sh/v0/namespaces/plant/instances/${name}`, { ...testInstance(['a']) })
      await eventually(() => expect(state.instances.cache.list()).toHaveLength(count))
    }
    putNode('a')
    await start()
    putReport('a', statusWith('Unknown', 0))
    await eventually(() => expect(writes()).toHaveLength(1))
    await clock.advance(10_000)
    await putInstance('cam-8120fe', 1)
    await clock.advance(400)
    expect(writes()).toHaveLength(1)
    putReport('a', statusWith('True'))
    await eventually(() => expect(writes()).toHaveLength(2))
    expect(status()).toMatchObject({ devices: 1, nodeCounts: { ready: 1 } })
    await clock.advance(10_000)
    expect(writes()).toHaveLength(2)
    await putInstance('cam-a19705', 2)
    await clock.advance(1000)
    await eventually(() => expect(writes()).toHaveLength(3))
    expect(status()).toMatchObject({ devices: 2 })
  })

  it('counts only reports of this Configuration, of nodes that exist', async () => {
    putNode('a')
    putNode('b')
    putReport('a', statusWith('True'))
    putReport('b', statusWith('False'), { uid: 'uid-of-its-predecessor' })
    putReport('gone', statusWith('False'))
    await start()
    await eventually(() =>
      expect(status().nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 0 }),
    )
    expect(ready()).toMatchObject({ status: 'True' })
    putNode('gone')
    await untilWritten(2)
    expect(ready()).toMatchObject({ status: 'False' })
  })

  it('counts a node as silent while its agent or its kubelet is not ready', async () => {
    for (const node of ['a', 'b']) putNode(node)
    const agentPod = putAgent('a', true)
    putReport('a', statusWith('True'), { agentPod })
    putReport('b', statusWith('True'))
    await start()
    const counts = (reporting: number, silent: number) =>
      inSteps(clock, () => {
        expect(status().nodeCounts).toEqual({ reporting, ready: reporting, silent })
      })
    await counts(2, 0)
    putAgent('a', false)
    await counts(1, 1)
    expect(status().nodes).toMatchObject({ a: { conditions: [{ reason: 'AgentSilent' }] } })
    putAgent('a', true)
    await counts(2, 0)
    expect(status().nodes).toEqual({})
    putNode('b', 'Unknown')
    await counts(1, 1)
    putNode('a', 'Unknown')
    await counts(0, 2)
    await inSteps(
      clock,
      () => {
        expect(ready()).toMatchObject({ status: 'Unknown', reason: 'AgentSilent' })
      },
      10_000,
    )
  })

  it('is ready during a roll-out, and not if an agent stays away', async () => {
    for (const node of ['a', 'b']) putNode(node)
    putReport('a', statusWith('True'), { agentPod: putAgent('a', true) })
    putReport('b', statusWith('True'), { agentPod: putAgent('b', true) })
    await start()
    await untilWritten(1)
    const begin = clock.monotonicMs()
    for (const node of ['a', 'b']) {
      putAgent(node, false)
      await eventually(() => expect(state.reportIndex.presence(node as never)).toBe('silent'))
      await clock.advance(59_000)
      expect(ready()).toMatchObject({ status: 'True' })
      putAgent(node, true)
      await eventually(() => expect(state.reportIndex.presence(node as never)).toBe('present'))
    }
    expect(clock.monotonicMs() - begin).toBeGreaterThan(60_000)
    api.remove('/api/v1/namespaces/akri/pods/agent-b')
    await inSteps(
      clock,
      () => {
        expect(ready()).toMatchObject({
          status: 'Unknown',
          reason: 'AgentSilent',
          message: expect.stringMatching(/1 node is silent: b$/),
        })
      },
      10_000,
    )
    putAgent('b', true)
    await inSteps(
      clock,
      () => {
        expect(ready()).toMatchObject({ status: 'True' })
      },
      1000,
    )
  })

  it('stays unknown for a silent agent when another replica leads', async () => {
    for (const node of ['a', 'b']) putNode(node)
    putReport('a', statusWith('True'), { agentPod: putAgent('a', false) })
    putReport('b', statusWith('True'))
    await start()
    await inSteps(
      clock,
      () => {
        expect(ready()).toMatchObject({ status: 'Unknown' })
      },
      10_000,
    )
    const count = writes().length
    await leadAgain()
    putReport('b', statusWith('True', 2))
    await hasSeen('b', statusWith('True', 2))
    await clock.advance(2000)
    expect(
      writes()
        .slice(count)
        .map(({ body }) => body),
    ).toEqual([])
    expect(ready()).toMatchObject({ status: 'Unknown', reason: 'AgentSilent' })
  })

  it('has an Event for each change of Ready and of its reason', async () => {
    putNode('a')
    await start()
    const given = (status: 'True' | 'False' | 'Unknown', reason: string, message = 'text') => {
      const condition = { type: 'Ready', status, reason, message } as const
      putReport('a', { observedGeneration: 3, devices: 1, conditions: [condition] })
      return inSteps(clock, () => {
        expect(ready()).toMatchObject({ status, reason, message })
      })
    }
    await given('Unknown', 'NoHandler')
    await given('False', 'NoHandler')
    await given('False', 'NoHandler', 'other words')
    await given('False', 'HandlerFailed')
    await given('True', 'AllDevicesServed')
    expect(events.map(({ type, reason, message }) => `${type} ${reason}: ${message}`)).toEqual([
      'Warning NoHandler: Ready is Unknown: text',
      'Warning NoHandler: Ready is False: text',
      'Warning HandlerFailed: Ready is False: text',
      'Normal AllDevicesServed: Ready is True: text',
    ])
    expect(events[0]?.regarding).toEqual({ kind: 'Configuration', key: 'plant/cam' })
  })

  it.each([
    ['takes longer than a start', 299_000, 'AgentSilent', 'CrashLoopBackOff'],
    ['cannot get its image', 29_000, 'ImagePullFailed', 'ImagePullBackOff'],
  ])('is unknown once an agent that has never reported %s', async (_what, ms, reason, waiting) => {
    for (const node of ['a', 'b']) putNode(node)
    putReport('a', statusWith('True'), { agentPod: putAgent('a', true) })
    putAgent('b', false, { reason: waiting })
    await start()
    await untilWritten(1)
    await clock.advance(ms)
    expect(ready()).toMatchObject({ status: 'True' })
    const isSilent = () =>
      inSteps(
        clock,
        () => {
          expect(ready()).toMatchObject({
            status: 'Unknown',
            reason,
            message:
              `1 of 2 nodes; b: the agent has never reported: Pod agent-b: ${waiting}; ` +
              '1 node is silent: b',
          })
        },
        1000,
      )
    await isSilent()
    expect(status().nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 1 })
    const count = writes().length
    await leadAgain()
    putReport('a', statusWith('True', 2), { agentPod: 'agent-a' })
    await hasSeen('a', statusWith('True', 2))
    await clock.advance(2000)
    expect(writes()).toHaveLength(count)
    await isSilent()
    putReport('b', statusWith('True'), { agentPod: putAgent('b', true) })
    await inSteps(
      clock,
      () => {
        expect(ready()).toMatchObject({ status: 'True' })
      },
      1000,
    )
    expect(status().nodes).toEqual({})
  })

  it('does not count a node whose agent starts in time, or writes no report', async () => {
    for (const node of ['a', 'b', 'c']) putNode(node)
    putReport('a', statusWith('True'), { agentPod: putAgent('a', true) })
    putAgent('b', false)
    putAgent('c', true)
    await start()
    await untilWritten(1)
    await clock.advance(299_000)
    putReport('b', statusWith('True'), { agentPod: 'agent-b' })
    await hasSeen('b', statusWith('True'))
    await clock.advance(59_000)
    expect(ready()).toMatchObject({ status: 'True' })
    putAgent('b', true)
    await eventually(() => expect(state.reportIndex.presence('b' as never)).toBe('present'))
    await clock.advance(GRACE_MS)
    expect(ready()).toMatchObject({ status: 'True' })
  })

  it('does not take the Pod of another node for the agent of a report', async () => {
    for (const node of ['a', 'b']) putNode(node)
    const agentPod = putAgent('a', true)
    for (const node of ['a', 'b']) putReport(node, statusWith('True'), { agentPod })
    await start()
    await eventually(() =>
      expect(status().nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 1 }),
    )
    expect(state.reportIndex.presence('b' as never)).toBe('exchanged')
  })

  it('shows the problem of a Configuration whose spec is invalid', async () => {
    putNode('a')
    const { spec } = testConfiguration()
    api.put(CONFIGURATION, { ...testConfiguration(), spec: { ...spec, capacity: -1 } })
    putReport('a', statusWith('False'))
    await start()
    await eventually(() => expect(ready()).toMatchObject({ status: 'False', reason: 'R' }))
  })

  it('is not written while the custom resource of reports is missing', async () => {
    api.refusal = ({ path }) =>
      path.startsWith(REPORTS) ? { status: 404, message: 'no such page' } : undefined
    putNode('x')
    const legacy = { x: statusWith('True') }
    const before = {
      observedGeneration: 3,
      conditions: [],
      devices: 0,
      slots: { total: 0, claimed: 0 },
    }
    api.put(CONFIGURATION, { ...testConfiguration(), status: { ...before, nodes: legacy } })
    const client = await api.open()
    state = new ClusterState({ client, clock, log: silentLogger, agentNamespace: 'akri' })
    state.start()
    await state.synced
    lead({ client })
    await clock.advance(10_000)
    expect(writes()).toEqual([])
    await state.close()
  })
})

describe('entries of agents of the version before', () => {
  const entry = statusWith('False')

  function putStatus(nodes: Readonly<Record<string, NodeStatus>>): void {
    const base = api.objects.get(CONFIGURATION) as unknown as Configuration
    const before = {
      observedGeneration: 3,
      conditions: [],
      devices: 0,
      slots: { total: 0, claimed: 0 },
    }
    api.put(CONFIGURATION, { ...base, status: { ...before, ...base.status, nodes } })
  }

  it('stay and count while the node has no report, and go with its first one', async () => {
    for (const node of ['a', 'b']) putNode(node)
    putStatus({ a: entry, b: entry })
    putReport('a', statusWith('True'))
    await start()
    await untilWritten(1)
    expect(status()).toMatchObject({
      nodes: { b: entry },
      nodeCounts: { reporting: 2, ready: 1, silent: 0 },
    })
    expect(status().nodes).not.toHaveProperty('a')
    putReport('b', statusWith('True'))
    await untilWritten(2)
    expect(status().nodes).toEqual({})
    expect(ready()).toMatchObject({ status: 'True' })
  })

  it('stay if they come back: an agent that was rolled back writes them for ever', async () => {
    putNode('a')
    putReport('a', statusWith('True'))
    await start()
    await untilWritten(1)
    // The old agent writes its entry whenever it is not there.
    for (const count of [2, 3, 3, 3]) {
      if (status().nodes.a === undefined) putStatus({ a: entry })
      await inSteps(clock, () => {
        expect(writes()).toHaveLength(count)
      })
      await clock.advance(5000)
    }
    expect(status().nodes).toEqual({ a: entry })
    expect(ready()).toMatchObject({ status: 'False' })
    // The new agent is back, and reports something else.
    putReport('a', statusWith('True', 2))
    await inSteps(clock, () => {
      expect(status().nodes).toEqual({})
    })
    expect(ready()).toMatchObject({ status: 'True' })
  })

  it('of the controller itself do not stay after the problem is solved', async () => {
    putNode('a')
    putReport('a', statusWith('False'))
    await start()
    await untilWritten(1)
    expect(status().nodes).toEqual({ a: entry })
    putReport('a', statusWith('Unknown'))
    await untilWritten(2)
    expect(status().nodes).toEqual({ a: statusWith('Unknown') })
    api.remove(`${REPORTS}/a`)
    await untilWritten(3)
    expect(status().nodes).toEqual({})
  })
})

describe('the report of a node without an agent', () => {
  const deletions = () => api.requests.filter(({ method }) => method === 'DELETE')

  it('stays for the claims of Pods, and does not count after the grace period', async () => {
    for (const node of ['a', 'b']) putNode(node)
    putReport('b', statusWith('True'))
    putReport('a', statusWith('True'), { agentPod: 'agent-a', agentNamespace: 'akri' })
    const limits = { 'akri.sh/cam-8120fe': '1' }
    api.put('/api/v1/namespaces/plant/pods/user', {
      spec: { nodeName: 'a', containers: [{ resources: { limits } }] },
    })
    const instance = testInstance(['a'], { shared: false })
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', {
      ...instance,
      spec: { ...instance.spec, deviceUsage: { 'cam-8120fe-0': 'a' } },
    })
    await start()
    const spec = () => state.instances.cache.list()[0]?.spec
    await inSteps(
      clock,
      () => {
        expect(spec()?.nodes).toEqual([])
      },
      GRACE_MS / 10,
    )
    await clock.advance(GRACE_MS)
    // The Pod of the node uses the device.
    expect(spec()?.deviceUsage).toEqual({ 'cam-8120fe-0': 'a' })
    expect(deletions()).toEqual([])
    const counts = { reporting: 1, ready: 1, silent: 0 }
    await inSteps(clock, () => {
      expect([ready()?.status, status().nodeCounts]).toEqual(['True', counts])
    })
    // Another replica has not counted the grace period.
    await leadAgain()
    for (let second = 0; second < 100; second++) await clock.advance(1000)
    expect([ready()?.status, status().nodeCounts]).toEqual(['True', counts])
    api.remove('/api/v1/namespaces/plant/pods/user')
    await inSteps(
      clock,
      () => {
        expect(deletions().map(({ path }) => path)).toEqual([
          '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe',
          `${REPORTS}/a`,
        ])
      },
      10_000,
    )
  })

  it('stays while the next agent does not start, and shows when that is taken off', async () => {
    putNode('a')
    putReport('a', statusWith('True'), { agentPod: 'agent-before', agentNamespace: 'akri' })
    putAgent('a', false, { reason: 'ImagePullBackOff' })
    const path = '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe'
    api.put(path, { ...testInstance(['a'], { shared: false }) })
    await start()
    await inSteps(
      clock,
      () => {
        const message = expect.stringContaining('1 devices before: Pod agent-a: ImagePullBackOff')
        expect(ready()).toMatchObject({ reason: 'ImagePullFailed', message })
      },
      GRACE_MS,
    )
    await clock.advance(GRACE_MS)
    expect(deletions()).toEqual([])
    api.remove('/api/v1/namespaces/akri/pods/agent-a')
    await eventually(async () => {
      expect(state.reportIndex.presence('a' as never)).toBe('left')
      expect(clock.sleeping).toContain(GRACE_MS)
    })
    // The grace period begins again.
    await clock.advance(GRACE_MS - 1)
    expect(deletions()).toEqual([])
    await inSteps(
      clock,
      () => {
        expect(deletions().map((request) => request.path)).toEqual([path, `${REPORTS}/a`])
      },
      10_000,
    )
  })

  it.each<[string, boolean, string | undefined]>([
    ['another agent works without a report', true, 'akri'],
    ['it does not say where its agent was', false, undefined],
  ])('does not stay for Instances of its node if %s', async (_why, isReady, agentNamespace) => {
    putNode('a')
    const agent = { agentPod: 'agent-before', ...(agentNamespace && { agentNamespace }) }
    putReport('a', statusWith('True'), agent)
    putAgent('a', isReady)
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', {
      ...testInstance(['a']),
    })
    await start()
    expect(state.reportIndex.presence('a' as never)).toBe('exchanged')
    await inSteps(
      clock,
      () => {
        expect(deletions().map(({ path }) => path)).toEqual([`${REPORTS}/a`])
      },
      GRACE_MS / 10,
    )
  })

  it('is deleted if an agent of the existing system has its place, and both run', async () => {
    putNode('a')
    putReport('a', statusWith('True'), { agentPod: 'agent-a', agentNamespace: 'akri' })
    api.put('/api/v1/namespaces/other/pods/agent', {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: 'a', volumes: [{ name: 'v', hostPath: { path: '/var/lib/kubelet' } }] },
    })
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', {
      ...testInstance(['a']),
    })
    await start('akri-0.13')
    await inSteps(
      clock,
      () => {
        expect(deletions().map(({ path }) => path)).toEqual([`${REPORTS}/a`])
      },
      GRACE_MS / 10,
    )
    expect(state.instances.cache.list()[0]?.spec.nodes).toEqual(['a'])
  })

  it('is deleted after the grace period, and not if the agent is only silent', async () => {
    for (const node of ['a', 'b', 'c']) putNode(node)
    putReport('a', statusWith('True'), { agentPod: putAgent('a', true) })
    putReport('b', statusWith('True'), { agentPod: putAgent('b', false) })
    putReport('c', statusWith('True'))
    await start()
    await untilWritten(1)
    putAgent('a', false)
    await untilWritten(2)
    api.remove('/api/v1/namespaces/akri/pods/agent-a')
    await eventually(() => expect(state.reportIndex.presence('a' as never)).toBe('exchanged'))
    await clock.advance(GRACE_MS - 1)
    expect(deletions()).toEqual([])
    await clock.advance(1)
    await eventually(() => expect(deletions()).toHaveLength(1))
    await clock.advance(10 * GRACE_MS)
    expect(deletions().map(({ path }) => path)).toEqual([`${REPORTS}/a`])
    await inSteps(clock, () => {
      expect(status().nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 1 })
    })
  })

  it('stays if the agent comes back in the grace period', async () => {
    putNode('a')
    putReport('a', statusWith('True'), { agentPod: 'agent-a' })
    await start()
    await clock.advance(GRACE_MS / 2)
    putAgent('a', true)
    await eventually(() => expect(state.reportIndex.presence('a' as never)).toBe('present'))
    api.remove('/api/v1/namespaces/akri/pods/agent-a')
    await eventually(() => expect(state.reportIndex.presence('a' as never)).toBe('exchanged'))
    await clock.advance(GRACE_MS / 2)
    expect(deletions()).toEqual([])
  })
})
