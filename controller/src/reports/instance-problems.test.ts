import { type DeviceProblem, type InstanceCondition, parseInstanceObject } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import type { ClusterState } from '../cluster-state.js'
import { reconciled, type TestApi } from '../testing/api.js'
import { TestControl } from '../testing/control.js'
import { testInstance } from '../testing/objects.js'
import { problemOf, reconcileInstanceProblems } from './instance-problems.js'

const INSTANCES = '/apis/akri.sh/v0/namespaces/plant/instances'
const CAM = objectKey('plant', 'cam')

let controller: TestControl
let api: TestApi
let clock: ManualClock

beforeEach(() => {
  controller = new TestControl()
  ;({ api, clock } = controller)
  api.putConfiguration()
})

afterEach(() => controller.stop())

/** An Instance of an earlier Configuration of the name, and a report about it. */
function putForeign(): void {
  const { metadata, ...instance } = testInstance(['a'])
  const ownerReferences = metadata.ownerReferences?.map((owner) => ({ ...owner, uid: 'other' }))
  api.put(`${INSTANCES}/cam-8120fe`, { ...instance, metadata: { ...metadata, ownerReferences } })
  putReport('a', { x: ['cam-8120fe'] })
}

/** @param problems the Instances of each reason */
function putReport(
  node: string,
  problems: Readonly<Record<string, readonly string[]>>,
  { uid = 'uid-cam', agentPod, found }: { uid?: string; agentPod?: string; found?: string } = {},
): void {
  const deviceProblems = Object.entries(problems).map(([reason, instances]) => ({
    reason,
    instances,
    ...(found === undefined ? {} : { found }),
  }))
  const status = { uid, observedGeneration: 3, devices: 1, conditions: [], deviceProblems }
  api.put(`/apis/akri.sh/v0/nodereports/${node}`, {
    configurations: { 'plant/cam': status },
    ...(agentPod === undefined ? {} : { agentPod }),
  })
}

function conditionOf(name = 'cam-8120fe'): InstanceCondition | undefined {
  return parseInstanceObject(api.objects.get(`${INSTANCES}/${name}`))?.status?.conditions?.[0]
}

const writes = () => api.requests.filter(({ method }) => method === 'PATCH')
const has = (status: 'True' | 'False', message: string) => ({ status, message })
const OVER = has('False', 'the device has no problem any more')

/** Puts what a test starts with, and gives the work on all Configurations. */
async function started(): Promise<{ state: ClusterState; look: () => Promise<unknown> }> {
  const term = await api.term(clock)
  const { signal } = new AbortController()
  return {
    state: term.state,
    look: () => reconciled((after) => reconcileInstanceProblems(CAM, term, signal, after)),
  }
}

it.each([
  ['quotes the first node of the Instance', 'a b', 'ReportedByHandler: on b'],
  ['follows no node that does not see the device', 'c', undefined],
  ['names the node whose agent found it', 'a=HandlerLost', 'HandlerLost: a: on a'],
  [
    'names the first of several nodes',
    'a=HandlerLost b=HandlerLost',
    'HandlerLost: b and others: on b',
  ],
  ['counts all nodes', 'a=HandlerLost b=HandlerLost e=HandlerLost', 'HandlerLost: all nodes: on b'],
  ['counts Pods of a node that has left', 'd=HandlerLost c=DeviceLost', 'DeviceLost: c: on c'],
])('the problem of an Instance %s: %s', (_what, reports, expected) => {
  const byNode = new Map<NodeName, Pick<DeviceProblem, 'reason' | 'found'>>()
  for (const report of reports.split(' ')) {
    const [node, found] = report.split('=') as [NodeName, DeviceProblem['found']]
    byNode.set(node, { reason: `on ${node}`, ...(found && { found }) })
  }
  const problem = (shared: boolean) => {
    const instance = testInstance(['b', 'a', 'e'], { shared })
    const found = problemOf(instance, new Map([[instance.metadata.name, byNode]]))
    return found && `${found.reason}: ${found.message}`
  }
  expect(problem(true)).toBe(expected)
  // Another node cannot see a device that is not shared.
  if (reports.includes('DeviceLost')) expect(problem(false)).toBeUndefined()
})

describe('the condition DeviceProblem of an Instance', () => {
  it('follows what the nodes report, with one write for each change', async () => {
    for (const node of ['a', 'b']) api.putNode(node)
    api.putInstance(['a', 'b'])
    await controller.start()
    const becomes = (expected: object) =>
      inSteps(clock, () => expect(conditionOf()).toMatchObject(expected))
    const ofInstance = () => writes().filter(({ path }) => path.startsWith(INSTANCES))
    putReport('b', { 'credential refused': ['cam-8120fe'] })
    await becomes(has('True', 'credential refused'))
    // The other node has the same problem.
    putReport('a', { 'credential refused': ['cam-8120fe'] })
    await eventually(() => expect(controller.state.reports.cache.list()).toHaveLength(2))
    putReport('a', {})
    await becomes(has('True', 'credential refused'))
    expect(ofInstance()).toHaveLength(1)
    putReport('b', {})
    await becomes(OVER)
    expect(ofInstance()).toHaveLength(2)
    // What an agent of a later version finds.
    putReport('b', { 'all is wet': ['cam-8120fe'] }, { found: 'Wet' })
    await becomes({ reason: 'ReportedByHandler', message: 'all is wet' })
  })

  it.each<[string, () => void]>([
    ['another Configuration', () => putReport('a', { x: ['cam-8120fe'] }, { uid: 'before' })],
    ['a node that was deleted', () => putReport('gone', { x: ['cam-8120fe'] })],
    ['another Instance', () => putReport('a', { x: ['dog-8120fe'] })],
    ['an Instance that only has the name of the Configuration', () => putForeign()],
  ])('is not written for the report of %s', async (_, put) => {
    for (const node of ['a', 'c']) api.putNode(node)
    api.putInstance(['a', 'gone'])
    put()
    const { look } = await started()
    await look()
    expect(writes()).toEqual([])
  })

  it('stays while the agent of the report is exchanged', async () => {
    api.putNode('a')
    api.putInstance(['a'])
    putReport('a', { x: ['cam-8120fe'] }, { agentPod: 'agent-that-is-gone' })
    const { state, look } = await started()
    expect(state.reportIndex.presence('a' as never)).toBe('exchanged')
    await look()
    expect(conditionOf()).toMatchObject(has('True', 'x'))
  })

  it('leaves reports of workloads and the Job as they are', async () => {
    api.putNode('a')
    const before = {
      brokerInfo: { version: '1' },
      brokerInfoSlots: { version: 'cam-8120fe-0' },
      brokerJob: { name: 'cam-8120fe-x', specHash: 'y' },
    }
    api.put(`${INSTANCES}/cam-8120fe`, { ...testInstance(['a']), status: before })
    putReport('a', { x: ['cam-8120fe'] })
    const { look } = await started()
    await look()
    expect(api.objects.get(`${INSTANCES}/cam-8120fe`)?.status).toMatchObject({
      ...before,
      conditions: [{ message: 'x' }],
    })
  })

  it('is written for at most twenty Instances in a turn, and for the others later', async () => {
    api.putNode('a')
    const names = Array.from({ length: 45 }, (_, index) => `cam-${index + 100_000}`)
    for (const name of names) api.putInstance(['a'], { name })
    putReport('a', { x: names })
    const { look } = await started()
    for (const [written, requeueAfterMs] of [
      [20, 2000],
      [40, 2000],
      [45, undefined],
      [45, undefined],
    ] as const) {
      expect(await look()).toEqual(requeueAfterMs === undefined ? {} : { requeueAfterMs })
      expect(writes()).toHaveLength(written)
    }
    expect(names.map((name) => conditionOf(name)?.status)).toEqual(names.map(() => 'True'))
  })

  it('is written for the others if the API server refuses it for one Instance', async () => {
    api.putNode('a')
    const names = Array.from({ length: 23 }, (_, index) => `cam-${index + 100_000}`)
    for (const name of names) api.putInstance(['a'], { name })
    putReport('a', { x: names })
    const { look } = await started()
    api.refusal = ({ method, path }) =>
      method === 'PATCH' && path.includes('cam-100000') ? { status: 422, message: 'no' } : undefined
    expect(await look()).toEqual({ requeueAfterMs: 2000 })
    await expect(look()).rejects.toMatchObject({ status: 422 })
    expect(names.filter((name) => conditionOf(name) === undefined)).toEqual(['cam-100000'])
    api.refusal = () => undefined
    expect(await look()).toEqual({})
    expect(conditionOf('cam-100000')).toMatchObject(has('True', 'x'))
  })
})
