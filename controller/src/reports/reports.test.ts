import { silentLogger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { ClusterState } from '../cluster-state.js'
import { CONFIGURATION, T0, testConfiguration } from '../testing/objects.js'
import { GRACE_MS, REPORTS, ReportsHarness, statusWith } from '../testing/reports-harness.js'

let world: ReportsHarness

beforeEach(() => {
  world = new ReportsHarness()
})

afterEach(() => world.stop())

/** What the status of a Configuration has before its first summary. */
const EMPTY = { observedGeneration: 3, conditions: [], devices: 0, slots: { total: 0, claimed: 0 } }

/** Another program writes fields of the status. */
function putStatus(fields: object): void {
  const { status, ...rest } = world.api.objects.get(CONFIGURATION) ?? expect.fail()
  world.api.put(CONFIGURATION, { ...rest, status: { ...(status as object), ...fields } })
}

describe('the summary of a Configuration', () => {
  it('is written at once for the first report, and not for the next equal one', async () => {
    world.putNodes('a')
    world.api.putInstance(['a'])
    await world.start()
    world.putReport('a', 'True')
    await eventually(() => expect(world.writes).toHaveLength(1))
    expect(world.status).toMatchObject({
      observedGeneration: 3,
      devices: 1,
      slots: { total: 1, claimed: 0 },
      nodeCounts: { reporting: 1, ready: 1, silent: 0 },
      nodes: {},
    })
    for (const devices of [2, 3]) {
      await world.report('a', 'True', { devices })
      await world.clock.advance(10_000)
    }
    expect(world.writes).toHaveLength(1)
  })

  it('removes entries of nodes that make no sense, and is not written again then', async () => {
    world.putNodes('a')
    world.putReport('a', 'True')
    await world.start()
    await world.untilWritten(1)
    const conditions = [{ type: 'Foreign', status: 'True', reason: 'R', message: 'text' }]
    putStatus({ nodes: { b: { observedGeneration: 3, devices: 1, conditions } } })
    await world.untilWritten(2)
    expect(world.writes[1]?.body).toMatchObject({ status: { nodes: { b: null } } })
    expect(world.api.objects.get(CONFIGURATION)?.status).toMatchObject({ nodes: {} })
    await world.report('a', 'True', { devices: 2 })
    await world.clock.advance(10_000)
    expect(world.writes).toHaveLength(2)
  })

  it('keeps the conditions of other programs, also when its own change', async () => {
    world.putNodes('a')
    world.putReport('a', 'True')
    await world.start()
    await world.untilWritten(1)
    const at = { lastTransitionTime: new Date(T0).toISOString(), observedGeneration: 3 }
    const other = { type: 'Calibrated', status: 'True', reason: 'R', message: 'text', ...at }
    putStatus({ conditions: [other, ...world.status.conditions] })
    await world.report('a', 'False')
    await world.untilWritten(2)
    expect(world.api.objects.get(CONFIGURATION)?.status).toMatchObject({
      conditions: [{ type: 'Ready', status: 'False' }, other],
    })
    await world.clock.advance(10_000)
    expect(world.writes).toHaveLength(2)
  })

  it('is written at most once in two seconds, however many nodes report', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `node-${index}`)
    const allReport = async (status: 'True' | 'False' | 'Unknown') => {
      for (const name of names) world.putReport(name, status)
      await world.report('node-39', status)
    }
    world.putNodes(...names)
    await world.start()
    await allReport('True')
    await eventually(() => expect(world.writes).toHaveLength(1))
    await world.clock.advance(1899)
    expect(world.writes).toHaveLength(1)
    await world.untilWritten(2)
    expect(world.status.nodeCounts).toEqual({ reporting: 40, ready: 40, silent: 0 })
    for (const status of ['False', 'Unknown', 'False', 'Unknown'] as const) {
      await allReport(status)
      await world.clock.advance(1000)
    }
    expect(world.writes.length).toBeLessThanOrEqual(4)
  })

  it('of a new Instance waits for the report of its node, for a second at most', async () => {
    const putInstance = async (name: string, count: number) => {
      world.api.putInstance(['a'], { name })
      await eventually(() => expect(world.state.instances.cache.list()).toHaveLength(count))
    }
    const isWritten = (count: number) => eventually(() => expect(world.writes).toHaveLength(count))
    world.putNodes('a')
    await world.start()
    world.putReport('a', 'Unknown', { devices: 0 })
    await isWritten(1)
    await world.clock.advance(10_000)
    await putInstance('cam-8120fe', 1)
    await world.clock.advance(400)
    expect(world.writes).toHaveLength(1)
    world.putReport('a', 'True')
    await isWritten(2)
    expect(world.status).toMatchObject({ devices: 1, nodeCounts: { ready: 1 } })
    await world.clock.advance(10_000)
    expect(world.writes).toHaveLength(2)
    await putInstance('cam-a19705', 2)
    await world.clock.advance(1000)
    await isWritten(3)
    expect(world.status).toMatchObject({ devices: 2 })
  })

  it('counts only reports of this Configuration, of nodes that exist', async () => {
    world.putNodes('a', 'b')
    world.putReport('a', 'True')
    world.putReport('b', 'False', { uid: 'uid-of-its-predecessor' })
    world.putReport('gone', 'False')
    await world.start()
    await world.untilCounted(1, 0)
    expect(world.ready).toMatchObject({ status: 'True' })
    world.putNodes('gone')
    await world.untilWritten(2)
    expect(world.ready).toMatchObject({ status: 'False' })
  })

  it('counts a node as silent while its agent or its kubelet is not ready', async () => {
    world.putWorkingNodes('a')
    world.putNodes('b')
    world.putReport('b', 'True')
    await world.start()
    await world.untilCounted(2, 0)
    world.putAgent('a', false)
    await world.untilCounted(1, 1)
    expect(world.status.nodes).toMatchObject({ a: { conditions: [{ reason: 'AgentSilent' }] } })
    world.putAgent('a', true)
    await world.untilCounted(2, 0)
    expect(world.status.nodes).toEqual({})
    world.api.putNode('b', 'Unknown')
    await world.untilCounted(1, 1)
    world.api.putNode('a', 'Unknown')
    await world.untilCounted(0, 2)
    await world.untilReady({ status: 'Unknown', reason: 'AgentSilent' }, 10_000)
  })

  it('is ready during a roll-out, and not if an agent stays away', async () => {
    world.putWorkingNodes('a', 'b')
    await world.start()
    await world.untilWritten(1)
    // Longer than the time for which the last report of a silent node counts.
    for (const node of ['a', 'b']) {
      world.putAgent(node, false)
      await world.untilPresent(node, 'silent')
      await world.clock.advance(59_000)
      expect(world.ready).toMatchObject({ status: 'True' })
      world.putAgent(node, true)
      await world.untilPresent(node, 'present')
    }
    world.removeAgent('b')
    const message = expect.stringMatching(/1 node is silent: b$/)
    await world.untilReady({ status: 'Unknown', reason: 'AgentSilent', message }, 10_000)
    world.putAgent('b', true)
    await world.untilReady({ status: 'True' }, 1000)
  })

  it('stays unknown for a silent agent when another replica leads', async () => {
    world.putNodes('a', 'b')
    world.putReport('a', 'True', { agentPod: world.putAgent('a', false) })
    world.putReport('b', 'True')
    await world.start()
    await world.untilReady({ status: 'Unknown' }, 10_000)
    const before = world.writes.length
    await world.lead()
    await world.report('b', 'True', { devices: 2 })
    await world.clock.advance(2000)
    expect(world.writes.slice(before)).toEqual([])
    expect(world.ready).toMatchObject({ status: 'Unknown', reason: 'AgentSilent' })
  })

  it('has an Event for each change of Ready and of its reason', async () => {
    world.putNodes('a')
    await world.start()
    for (const [status, reason, message] of [
      ['Unknown', 'NoHandler', 'text'],
      ['False', 'NoHandler', 'text'],
      ['False', 'NoHandler', 'other words'],
      ['False', 'HandlerFailed', 'text'],
      ['True', 'AllDevicesServed', 'text'],
    ] as const) {
      const condition = { type: 'Ready', status, reason, message } as const
      world.putReport('a', { observedGeneration: 3, devices: 1, conditions: [condition] })
      await world.untilReady({ status, reason, message })
    }
    expect(
      world.events.map(({ type, reason, message }) => `${type} ${reason}: ${message}`),
    ).toEqual([
      'Warning NoHandler: Ready is Unknown: text',
      'Warning NoHandler: Ready is False: text',
      'Warning HandlerFailed: Ready is False: text',
      'Normal AllDevicesServed: Ready is True: text',
    ])
    expect(world.events[0]?.regarding).toEqual({ kind: 'Configuration', key: 'plant/cam' })
  })

  it.each([
    ['takes longer than a start', 299_000, 'AgentSilent', 'CrashLoopBackOff'],
    ['cannot get its image', 29_000, 'ImagePullFailed', 'ImagePullBackOff'],
  ])('is unknown once an agent that has never reported %s', async (_what, ms, reason, waiting) => {
    const message =
      `1 of 2 nodes; b: the agent has never reported: Pod agent-b: ${waiting}; ` +
      '1 node is silent: b'
    const untilSilent = () => world.untilReady({ status: 'Unknown', reason, message }, 1000)
    world.putWorkingNodes('a')
    world.putNodes('b')
    await world.start()
    await world.untilWritten(1)
    await world.clock.advance(10_000)
    world.putAgent('b', false, waiting)
    await eventually(() => expect([...world.state.reportIndex.unreported()]).toHaveLength(1))
    await world.clock.advance(ms)
    expect(world.ready).toMatchObject({ status: 'True' })
    await untilSilent()
    expect(world.status.nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 1 })
    const before = world.writes.length
    await world.lead()
    await world.report('a', 'True', { devices: 2, agentPod: 'agent-a' })
    await world.clock.advance(2000)
    expect(world.writes).toHaveLength(before)
    await untilSilent()
    world.putReport('b', 'True', { agentPod: world.putAgent('b', true) })
    await world.untilReady({ status: 'True' }, 1000)
    expect(world.status.nodes).toEqual({})
  })

  it('does not count a node whose agent starts in time, or writes no report', async () => {
    world.putWorkingNodes('a')
    world.putNodes('b', 'c')
    world.putAgent('b', false)
    world.putAgent('c', true)
    await world.start()
    await world.untilWritten(1)
    await world.clock.advance(299_000)
    await world.report('b', 'True', { agentPod: 'agent-b' })
    await world.clock.advance(59_000)
    expect(world.ready).toMatchObject({ status: 'True' })
    world.putAgent('b', true)
    await world.untilPresent('b', 'present')
    await world.clock.advance(GRACE_MS)
    expect(world.ready).toMatchObject({ status: 'True' })
  })

  it('does not take the Pod of another node for the agent of a report', async () => {
    world.putNodes('a', 'b')
    const agentPod = world.putAgent('a', true)
    for (const node of ['a', 'b']) world.putReport(node, 'True', { agentPod })
    await world.start()
    await world.untilCounted(1, 1)
    await world.untilPresent('b', 'exchanged')
  })

  it('shows the problem of a Configuration whose spec is invalid', async () => {
    world.putNodes('a')
    const { spec } = testConfiguration()
    world.api.put(CONFIGURATION, { ...testConfiguration(), spec: { ...spec, capacity: -1 } })
    world.putReport('a', 'False')
    await world.start()
    await world.untilReady({ status: 'False', reason: 'R' })
  })

  it('is not written while the custom resource of reports is missing', async () => {
    const { api, clock } = world
    api.refusal = ({ path }) =>
      path.startsWith(REPORTS) ? { status: 404, message: 'no such page' } : undefined
    world.putNodes('x')
    putStatus({ ...EMPTY, nodes: { x: statusWith('True') } })
    const client = await api.open()
    const state = new ClusterState({ client, clock, log: silentLogger, agentNamespace: 'akri' })
    state.start()
    await state.synced
    await world.start({}, { client, state })
    await clock.advance(10_000)
    expect(world.writes).toEqual([])
    await state.close()
  })

  it('shows a problem until it is solved, or the report or the Node was deleted', async () => {
    world.putNodes('a', 'b')
    world.putReport('a', 'False')
    world.putReport('b', 'False')
    // An entry of another program.
    putStatus({ ...EMPTY, nodes: { c: statusWith('False') } })
    await world.start()
    await world.untilWritten(1)
    expect(world.status.nodes).toEqual({ a: statusWith('False'), b: statusWith('False') })
    world.putReport('a', 'Unknown')
    await world.untilWritten(2)
    expect(world.status.nodes).toEqual({ a: statusWith('Unknown'), b: statusWith('False') })
    world.api.remove(`${REPORTS}/a`)
    await world.untilWritten(3)
    world.api.remove('/api/v1/nodes/b')
    await world.untilWritten(4)
    expect(world.status.nodes).toEqual({})
  })
})
