import { expect, it } from 'vitest'
import { conditionsOf, instanceConditions } from './status-conditions.js'
import type { Condition, InstanceCondition, NodeConditionType, NodeStatus } from './types.js'

it('names the nodes where a handler is missing, while other nodes have it', () => {
  const on = (status: 'True' | 'False', message: string): NodeStatus => ({
    observedGeneration: 1,
    devices: 0,
    conditions: [{ type: 'HandlerConnected', status, reason: 'R', message }],
  })
  const missing = on('False', 'no handler')
  const message = (nodes: Readonly<Record<string, NodeStatus>>) =>
    conditionsOf(nodes, [], 'now')[0]?.message
  const has = on('True', 'cam@x')
  expect(message({ a: has, b: has })).toBe('2 of 2 nodes; a: cam@x')
  expect(message({ a: has, b: missing })).toBe('1 of 2 nodes; a: cam@x; not on b: no handler')
  expect(message({ a: has, b: missing, c: missing, d: missing, e: missing, f: missing })).toBe(
    '1 of 6 nodes; a: cam@x; not on b, c, d and 2 more: no handler',
  )
  expect(message({ a: missing, b: missing })).toBe('2 of 2 nodes; a: no handler')
})

type Finding = readonly [status: 'True' | 'False' | 'Unknown', reason: string, devices?: number]
const nodeWith = (type: NodeConditionType, [status, reason, devices = 0]: Finding): NodeStatus => ({
  observedGeneration: 1,
  devices,
  conditions: [{ type, status, reason, message: reason.toLowerCase() }],
})
const clusterOf = (
  type: NodeConditionType,
  findings: Readonly<Record<string, Finding>>,
  before: readonly Condition[] = [],
  now = 'now',
) =>
  conditionsOf(
    Object.fromEntries(Object.entries(findings).map(([node, is]) => [node, nodeWith(type, is)])),
    before,
    now,
  )

const SERVED: Finding = ['True', 'AllDevicesServed', 1]
const NONE: Finding = ['True', 'NoDevices']
const WITHOUT: Finding = ['False', 'NoHandler']
const LISTENING: Finding = ['True', 'Listening']

it.each<[string, NodeConditionType, Readonly<Record<string, Finding>>, string]>([
  ['is that of the only node', 'Ready', { a: NONE }, 'True NoDevices: nodevices'],
  [
    'shows a node with devices rather than one without',
    'Ready',
    { a: NONE, b: SERVED },
    'True AllDevicesServed: 2 of 2 nodes; b: alldevicesserved',
  ],
  [
    'shows a node that left devices out beside devices first',
    'Ready',
    { a: SERVED, b: ['True', 'DevicesLeftOut', 1] },
    'True DevicesLeftOut: 2 of 2 nodes; b: devicesleftout',
  ],
  [
    'shows a node that serves devices rather than one that left all out',
    'Ready',
    { a: ['True', 'DevicesLeftOut'], b: SERVED },
    'True AllDevicesServed: 2 of 2 nodes; b: alldevicesserved',
  ],
  [
    'shows a node that left all devices out rather than one that sees none',
    'Ready',
    { a: NONE, b: ['True', 'DevicesLeftOut'] },
    'True DevicesLeftOut: 2 of 2 nodes; b: devicesleftout',
  ],
  [
    'is that of the nodes with the handler',
    'Ready',
    { a: WITHOUT, b: SERVED },
    'True AllDevicesServed: alldevicesserved',
  ],
  [
    'is that of the nodes without the handler if no node has it',
    'Ready',
    { a: WITHOUT, b: WITHOUT },
    'False NoHandler: 2 of 2 nodes; a: nohandler',
  ],
  [
    'is not ready if one node is not ready',
    'Ready',
    { a: SERVED, b: ['False', 'HandlerLost', 1] },
    'False HandlerLost: 1 of 2 nodes; b: handlerlost',
  ],
  [
    'shows refused details, although another node may still listen',
    'Discovering',
    { a: LISTENING, b: ['False', 'InvalidDetails'] },
    'False InvalidDetails: 1 of 2 nodes; b: invaliddetails',
  ],
  [
    'shows a refused property, although another node has no list yet',
    'Discovering',
    { a: ['Unknown', 'Waiting'], b: ['False', 'PropertyRefused'] },
    'False PropertyRefused: 1 of 2 nodes; b: propertyrefused',
  ],
  [
    'has a handler if one node has it',
    'HandlerConnected',
    { a: ['True', 'Connected'], b: ['Unknown', 'PropertyRefused'] },
    'True Connected: 1 of 2 nodes; a: connected',
  ],
])('a condition of the cluster %s', (_, type, nodes, expected) => {
  const [{ status, reason, message } = expect.fail()] = clusterOf(type, nodes)
  expect(`${status} ${reason}: ${message}`).toBe(expected)
})

it('a condition of the cluster keeps its time while its status is the same', () => {
  const first = clusterOf('Ready', { a: ['Unknown', 'Waiting'] }, [], 'one')
  const second = clusterOf('Ready', { a: ['Unknown', 'Progressing'] }, first, 'two')
  expect(second).toMatchObject([{ reason: 'Progressing', lastTransitionTime: 'one' }])
  const third = clusterOf('Ready', { a: SERVED }, second, 'three')
  expect(third).toMatchObject([{ lastTransitionTime: 'three' }])
})

const reported = (message: string) => ({ reason: 'ReportedByHandler', message }) as const

it('tells of the problem of a device, and of its end, with the time of each change', () => {
  const refused = instanceConditions([], reported('credential refused'), 'T1')
  expect(refused).toEqual([
    {
      type: 'DeviceProblem',
      status: 'True',
      reason: 'ReportedByHandler',
      message: 'credential refused',
      lastTransitionTime: 'T1',
    },
  ])
  expect(instanceConditions(refused, reported('credential refused'), 'T2')).toEqual(refused)
  const other = instanceConditions(refused, reported('no answer'), 'T3')
  expect(other).toMatchObject([{ message: 'no answer', lastTransitionTime: 'T1' }])
  const over = instanceConditions(other, undefined, 'T4')
  expect(over).toMatchObject([{ status: 'False', reason: 'ProblemOver', lastTransitionTime: 'T4' }])
  expect(instanceConditions(over, undefined, 'T5')).toEqual(over)
  const lost = instanceConditions(other, { reason: 'HandlerLost', message: 'x' }, 'T4')
  expect(lost).toMatchObject([{ reason: 'HandlerLost', message: 'x', lastTransitionTime: 'T1' }])
})

it('keeps the conditions of other programs beside the problem of a device', () => {
  const foreign = {
    type: 'Calibrated',
    status: 'Unknown',
    reason: 'R',
    message: 'x',
    lastTransitionTime: 'T0',
  } as const
  expect(instanceConditions([foreign], undefined, 'T1')).toEqual([foreign])
  const refused = instanceConditions([foreign], reported('no answer'), 'T1')
  expect(refused).toMatchObject([foreign, { type: 'DeviceProblem', status: 'True' }])
  expect(instanceConditions(refused.toReversed(), undefined, 'T2')).toMatchObject([
    { type: 'DeviceProblem', status: 'False', lastTransitionTime: 'T2' },
    foreign,
  ])
})

it('ends a problem whose status another program has set to Unknown', () => {
  const [before] = instanceConditions([], reported('no answer'), 'T1')
  const unknown = { ...before, status: 'Unknown' } as InstanceCondition
  expect(instanceConditions([unknown], undefined, 'T2')).toMatchObject([
    { status: 'False', reason: 'ProblemOver', lastTransitionTime: 'T2' },
  ])
})
