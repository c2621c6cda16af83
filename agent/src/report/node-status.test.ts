import {
  type Configuration,
  type ConfigurationName,
  conditionsOf,
  type InstanceName,
  type NodeStatus,
} from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import type { DeviceReport } from '@akrijs/runtime/handler'
import { describe, expect, it } from 'vitest'
import type { HandlerAnswer } from '../discovery/configuration-discovery.js'
import type { DeviceBound } from '../discovery/device-admission.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { SessionFailure, SessionState } from '../discovery/discovery-session.js'
import type { NameRefusal } from '../instances/resource-names.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import { configurationWith } from '../testing/objects.js'
import { mergeStatus } from './merge-status.js'
import { nodeStatus, refusedStatus } from './node-status.js'

const configuration = { metadata: { generation: 3 } } as Configuration
const noDevices: DeviceSet = { devices: new Map(), complete: true, leftOut: undefined }
const device = (healthy: boolean) => ({
  device: { id: 'x', hash: '' },
  shared: true,
  healthy,
  endpoint: 'cam@0',
})

const answerOf = (state: SessionState): HandlerAnswer =>
  state.phase === 'open' && state.listed ? 'fresh' : 'missing'

function report(
  states: readonly SessionState[],
  devices: DeviceSet = noDevices,
  present = 0,
  refusals: readonly NameRefusal[] = [],
  reports?: readonly DeviceReport[],
): NodeStatus {
  const endpoints = states.map((state, index) => ({
    uid: `cam@${index}`,
    state,
    answer: answerOf(state),
    reports,
  }))
  return nodeStatus({
    configuration,
    discovery: { handler: 'cam', endpoints },
    devices,
    collisions: [],
    refusals,
    taken: [],
    held: [],
    registrations: [],
    present,
  })
}

const leftOut = (reason: string, count: number, ...ids: string[]): DeviceReport => ({
  reason,
  count,
  ids,
  listed: false,
})
const problem = (resourceName: string, isRefused: boolean): RegistrationProblem => ({
  resourceName,
  isRefused,
  message: `no ${resourceName}`,
})
const ready = ({ conditions }: Pick<NodeStatus, 'conditions'>) => {
  const found = conditions.find(({ type }) => type === 'Ready')
  return `${found?.status} ${found?.reason}: ${found?.message}`
}

const brief = ({ conditions }: NodeStatus) =>
  Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]))

describe('the status of a Configuration on a node', () => {
  const open: readonly SessionState[] = [{ phase: 'open', listed: true }]
  const served: DeviceSet = { ...noDevices, devices: new Map([['x', device(true)]]) }
  const reported = (set: DeviceSet, reports: readonly DeviceReport[]) =>
    ready(report(open, set, set.devices.size, [], reports))

  it('never has "0 devices" alone', () => {
    expect(reported(noDevices, [])).toBe(
      'True NoDevices: 0 devices; the handler saw none; it gives no reason: check ' +
        'discoveryDetails, and run `akri discover` with them on the node',
    )
    expect(ready(report(open))).toBe(
      'True NoDevices: 0 devices; the log of the handler can say why',
    )
    const reports = [
      leftOut('HTTP status 401', 2, 'http://10.0.0.7/'),
      leftOut('filtered by scopes', 1),
    ]
    expect(reported(noDevices, reports)).toBe(
      'True DevicesLeftOut: 0 devices; 3 not offered: 2 x HTTP status 401 ' +
        '(such as http://10.0.0.7/), 1 x filtered by scopes',
    )
    expect(reported(served, [])).toBe('True AllDevicesServed: 1 devices')
  })

  it('has remarks on the discovery as a whole, also for "0 devices"', () => {
    const remark = leftOut('no events arrive', 0)
    expect(reported(noDevices, [remark])).toBe(
      'True NoDevices: 0 devices; the handler saw none; no events arrive',
    )
    expect(reported(served, [remark])).toBe('True AllDevicesServed: 1 devices')
    const { conditions } = report(open, served, 1, [], [remark])
    expect(conditions.find(({ type }) => type === 'Discovering')).toMatchObject({
      status: 'True',
      message: 'the handler tells of changes; no events arrive',
    })
  })

  it.each<[string, readonly RegistrationProblem[], string]>([
    [
      'refuses plugins',
      [problem('akri.sh/b', false), problem('akri.sh/c', true), problem('akri.sh/a', true)],
      'False RegistrationRefused: no akri.sh/a; other resources too',
    ],
    ['is away', [problem('akri.sh/a', false)], 'False KubeletUnavailable: no akri.sh/a'],
  ])('is not ready if the kubelet %s', (_what, registrations, expected) => {
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints: [] },
      devices: served,
      collisions: [],
      refusals: [],
      taken: [],
      held: [],
      registrations,
      present: 1,
    })
    expect(ready(status)).toBe(expected)
  })

  it('is not ready if a device that is served has a problem', () => {
    const refused = { ...leftOut('credential refused', 1, 'x'), listed: true }
    expect(reported(served, [refused, leftOut('HTTP status 401', 1, 'y')])).toBe(
      'False DeviceProblems: 1 devices; 1 with a problem: 1 x credential refused (such as x); ' +
        '1 not offered: 1 x HTTP status 401 (such as y)',
    )
  })

  it('counts what two endpoints left out once, and shows five reasons at most', () => {
    const reasons = Array.from({ length: 21 }, (_, n) =>
      leftOut(`reason ${n}`, 21 - n, 'i'.repeat(300)),
    )
    const endpoints = [reasons, undefined, [leftOut('reason 0', 9)]].map((reports, index) => ({
      uid: `cam@${index}`,
      state: { phase: 'open', listed: true } as const,
      answer: 'fresh' as const,
      reports,
    }))
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints },
      devices: noDevices,
      collisions: [],
      refusals: [],
      taken: [],
      held: [],
      registrations: [],
      present: 0,
    })
    expect(ready(status)).toMatch(
      /^True DevicesLeftOut: 0 devices; 231 not offered: 21 x reason 0 /,
    )
    expect(ready(status)).toMatch(/17 x reason 4 \(such as i{80}…\), 16 more reasons$/)
    expect(ready(status).length).toBeLessThan(1024)
  })

  it('is shown for the cluster where a node has left devices out', () => {
    const a = report(open, served, 1, [], [])
    const b = report(open, served, 1, [], [leftOut('HTTP status 401', 1)])
    const none = report(open, noDevices, 0, [], [])
    expect(ready({ conditions: conditionsOf({ none, other: a }, [], 'now') })).toBe(
      'True AllDevicesServed: 2 of 2 nodes; other: 1 devices',
    )
    expect(ready({ conditions: conditionsOf({ a, b }, [], 'now') })).toBe(
      'True DevicesLeftOut: 2 of 2 nodes; b: 1 devices; 1 not offered: 1 x HTTP status 401',
    )
    const near = report(open, noDevices, 0, [], [leftOut('rule 1 asks for more', 1)])
    expect(ready({ conditions: conditionsOf({ near, other: a }, [], 'now') })).toContain('other')
    expect(ready({ conditions: conditionsOf({ none, near }, [], 'now') })).toContain('near')
  })

  it('is not ready while the Instance of a device is being deleted', () => {
    const name = 'cam-8120fe' as InstanceName
    const finalizers = ['node-a', 'node-b', 'node-c', 'node-d']
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints: [] },
      devices: { ...noDevices, devices: new Map([['x', device(true)]]) },
      collisions: [],
      refusals: [],
      taken: [],
      held: [{ name, finalizers }],
      registrations: [],
      present: 1,
    })
    expect(ready(status)).toBe(
      'False InstanceBeingDeleted: 1 of 1 devices are not offered: their Instances are being ' +
        'deleted, and finalizers hold them; cam-8120fe: node-a, node-b, node-c, …',
    )
  })

  it('names the older Configuration with the name of an Instance in any case', () => {
    const owner = objectKey('line', 'cam-8120fe')
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints: [] },
      devices: { ...noDevices, devices: new Map([['x', device(false)]]) },
      collisions: [{ digest: 'a19705', kept: 'a', refused: 'b' }],
      refusals: [],
      taken: [{ device: 'foo0', owner }],
      held: [],
      registrations: [],
      present: 0,
    })
    expect(status.conditions.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'NameTaken',
      message: expect.stringContaining(
        'device "foo0" has no Instance: the older Configuration line/cam-8120fe has its name',
      ),
    })
  })

  it.each<[string, RegExp]>([
    ['cam', /^Configuration cam of namespace factory is older, and/],
    ['cam-8120fe', /is older and could have an Instance of this name, and .* choose another name$/],
  ])('names the older Configuration that refuses the name %s', (name, message) => {
    const rival = configurationWith({}, { name: 'cam' as ConfigurationName, namespace: 'factory' })
    const refused = configurationWith({}, { name: name as ConfigurationName, namespace: 'line' })
    expect(refusedStatus(refused, rival).conditions).toEqual([
      {
        type: 'Ready',
        status: 'False',
        reason: 'NameTaken',
        message: expect.stringMatching(message),
      },
    ])
  })

  it.each<[string, readonly SessionState[], Record<string, string>]>([
    [
      'no handler',
      [],
      {
        HandlerConnected: 'False NoHandler',
        Discovering: 'Unknown Waiting',
        Ready: 'False NoHandler',
      },
    ],
    [
      'a handler that is being asked',
      [{ phase: 'opening' }],
      {
        HandlerConnected: 'Unknown Connecting',
        Discovering: 'Unknown Waiting',
        Ready: 'Unknown Waiting',
      },
    ],
    [
      'a stream without a list',
      [{ phase: 'open', listed: false }],
      {
        HandlerConnected: 'True Connected',
        Discovering: 'Unknown Waiting',
        Ready: 'Unknown Waiting',
      },
    ],
    [
      'a stream with a list',
      [{ phase: 'open', listed: true }],
      {
        HandlerConnected: 'True Connected',
        Discovering: 'True Listening',
        Ready: 'True NoDevices',
      },
    ],
    [
      'refused details',
      [{ phase: 'refused', message: 'no' }],
      {
        HandlerConnected: 'True Connected',
        Discovering: 'False InvalidDetails',
        Ready: 'False InvalidDetails',
      },
    ],
    [
      'noDevices at the endpoint',
      [{ phase: 'failed', reason: 'Unreachable', message: 'no' }],
      {
        HandlerConnected: 'False Unreachable',
        Discovering: 'False Unreachable',
        Ready: 'False HandlerFailed',
      },
    ],
    [
      'a missing Secret',
      [{ phase: 'failed', reason: 'MissingProperty', message: 'no' }],
      {
        HandlerConnected: 'Unknown MissingProperty',
        Discovering: 'False MissingProperty',
        Ready: 'False SecretNotReadable',
      },
    ],
    [
      'a Secret of another namespace that does not consent',
      [{ phase: 'failed', reason: 'PropertyRefused', message: 'no' }],
      {
        HandlerConnected: 'Unknown PropertyRefused',
        Discovering: 'False PropertyRefused',
        Ready: 'False NoConsent',
      },
    ],
    [
      'a Secret that cannot be read',
      [{ phase: 'failed', reason: 'UnreadableProperty', message: 'no' }],
      {
        HandlerConnected: 'Unknown UnreadableProperty',
        Discovering: 'False UnreadableProperty',
        Ready: 'False SecretNotReadable',
      },
    ],
    [
      'one of two that fails',
      [
        { phase: 'open', listed: true },
        { phase: 'failed', reason: 'HandlerFailed', message: 'no' },
      ],
      {
        HandlerConnected: 'True Connected',
        Discovering: 'False HandlerFailed',
        Ready: 'False HandlerFailed',
      },
    ],
  ])('names %s', (_title, states, expected) => {
    expect(brief(report(states))).toMatchObject(expected)
  })

  it('is ready when each device has its Instance and its handler', () => {
    const open: SessionState[] = [{ phase: 'open', listed: true }]
    const oneDevice = (healthy: boolean): DeviceSet => ({
      devices: new Map([['x', device(healthy)]]),
      complete: true,
      leftOut: undefined,
    })
    expect(brief(report(open, oneDevice(true), 1)).Ready).toBe('True AllDevicesServed')
    expect(brief(report(open, oneDevice(true))).Ready).toBe('Unknown Progressing')
    expect(brief(report(open, oneDevice(false), 1)).Ready).toBe('False HandlerLost')
    const refused = { ...device(false), refusal: 'handler cam may not' }
    const both = new Map([
      ['x', refused],
      ['y', device(false)],
    ])
    const told = report(open, { devices: both, complete: true, leftOut: undefined }).conditions
    expect(told.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'DeviceRefused',
      message: '1 of 2 devices are not offered; device "x": handler cam may not',
    })
    // A list of an endpoint that left, from before a restart of the agent.
    const incomplete = { devices: new Map(), complete: false, leftOut: undefined }
    expect(brief(report(open, incomplete)).Ready).toBe('True NoDevices')
    // Handlers have not registered yet.
    expect(brief(report([], incomplete)).Ready).toBe('Unknown NoHandler')
  })

  it.each<[string, HandlerAnswer, SessionFailure, string]>([
    ['fails for a moment', 'fresh', 'HandlerFailed', 'True NoDevices'],
    ['fails', 'old', 'HandlerFailed', 'False HandlerFailed'],
    ['has no Secret for a moment', 'fresh', 'MissingProperty', 'True NoDevices'],
    ['has no Secret', 'old', 'MissingProperty', 'False SecretNotReadable'],
    ['cannot be reached after it had no devices', 'old', 'Unreachable', 'False NoHandler'],
    ['cannot be reached after an edit', 'missing', 'Unreachable', 'False HandlerFailed'],
  ])('has the cause if the handler %s', (_what, answer, reason, expected) => {
    const state = { phase: 'failed', reason, message: 'no' } as const
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints: [{ uid: 'cam@0', state, answer }] },
      devices: noDevices,
      collisions: [],
      refusals: [],
      taken: [],
      held: [],
      registrations: [],
      present: 0,
    })
    expect(brief(status).Ready).toBe(expected)
  })

  it('is that of the nodes with the handler, and of the others if no node has it', () => {
    const without = report([])
    const having = report(open, served, 1, [], [])
    const lost = report([], { ...served, devices: new Map([['x', device(false)]]) })
    const readyOf = (nodes: Record<string, NodeStatus>) =>
      ready({ conditions: conditionsOf(nodes, [], 'now') })
    expect(readyOf({ a: without, b: having })).toBe('True AllDevicesServed: 1 devices')
    expect(readyOf({ a: without, b: without })).toMatch(/^False NoHandler: 2 of 2 nodes; a: /)
    expect(readyOf({ a: lost, b: having })).toMatch(/^False HandlerLost: 1 of 2 nodes; a: /)
  })
})

describe('resources with new names beyond a bound', () => {
  it.each([
    ['full', /^2 resources are not offered: .* --max-resource-names/],
    ['soon', /^2 resources are not offered: .* --new-resource-names/],
  ] as const)('are counted, and the condition names the option (%s)', (why, message) => {
    const refusal = { why, retryInMs: 1000 }
    const { conditions } = report([], noDevices, 0, [refusal, refusal])
    expect(conditions.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'TooManyResources',
      message: expect.stringMatching(message),
    })
  })
})

describe('devices beyond a bound', () => {
  const beyond = (bound: DeviceBound) =>
    report([{ phase: 'open', listed: true }], {
      devices: new Map([['x', device(true)]]),
      complete: true,
      leftOut: { devices: 1500, bound, listed: new Map() },
    })

  it('are counted, and the condition names the bound and its option', () => {
    expect(beyond('perNode')).toMatchObject({ devices: 1, leftOut: 1500 })
    const ready = (status: NodeStatus) => status.conditions.find(({ type }) => type === 'Ready')
    expect(ready(beyond('perConfiguration'))).toEqual({
      type: 'Ready',
      status: 'False',
      reason: 'TooManyDevices',
      message:
        '1500 devices are left out and 1 are served: that is the bound of one Configuration; ' +
        '--max-configuration-devices of the agent raises it',
    })
    expect(ready(beyond('perNode'))?.message).toMatch(/all Configurations .* --max-devices/)
    expect(ready(beyond('perNamespace'))?.message).toMatch(/one namespace, half .* --max-devices/)
    expect(ready(beyond('slots'))?.message).toMatch(/a smaller capacity .* --max-slots/)
    expect(ready(beyond('slotsPerNamespace'))?.message).toMatch(/one namespace; .* --max-slots/)
    expect(report([])).not.toHaveProperty('leftOut')
  })
})

describe('the status of a Configuration', () => {
  const merge = (known: Configuration['status'], node: string, report: NodeStatus, now = 'now') =>
    mergeStatus({
      configuration: {
        metadata: configuration.metadata,
        ...(known === undefined ? {} : { status: known }),
      },
      instances: [],
      node: node as NodeName,
      report,
      now,
    })
  const conditionsIn = (status: ReturnType<typeof merge>) =>
    Object.fromEntries(
      status.conditions.map(({ type, status: is, reason, message }) => [
        type,
        `${is} ${reason}: ${message}`,
      ]),
    )

  it('is the status of the only node', () => {
    const status = merge(undefined, 'a', report([{ phase: 'open', listed: true }]))
    expect(conditionsIn(status)).toMatchObject({
      HandlerConnected: 'True Connected: cam@0',
      Ready: 'True NoDevices: 0 devices; the log of the handler can say why',
    })
  })

  it('has a handler if one node has a handler, and is not ready if one node is not ready', () => {
    const first = merge(undefined, 'a', report([{ phase: 'open', listed: true }]))
    const lost: DeviceSet = {
      devices: new Map([['x', device(false)]]),
      complete: true,
      leftOut: undefined,
    }
    const status = merge(first, 'b', report([], lost))
    expect(conditionsIn(status)).toEqual({
      HandlerConnected:
        'True Connected: 1 of 2 nodes; a: cam@0; not on b: ' +
        'no handler cam is loaded or has registered',
      Discovering: 'True Listening: 1 of 2 nodes; a: the handler tells of changes',
      Ready:
        'False HandlerLost: 1 of 2 nodes; b: 1 of 1 devices are not vouched for by their ' +
        'handler: no handler cam is loaded or has registered; load it in the agent, or look at ' +
        'the Pod of the handler and its log',
    })
    expect(Object.keys(status.nodes)).toEqual(['a', 'b'])
  })

  it('shows refused details, although another node may still listen', () => {
    const first = merge(undefined, 'a', report([{ phase: 'open', listed: true }]))
    const status = merge(first, 'b', report([{ phase: 'refused', message: 'udevRules[0]: no' }]))
    expect(conditionsIn(status).Discovering).toBe(
      'False InvalidDetails: 1 of 2 nodes; b: udevRules[0]: no',
    )
  })

  it('shows a refused property, although another node has no handler', () => {
    const state = { phase: 'failed', reason: 'PropertyRefused', message: 'no' } as const
    const first = merge(undefined, 'a', report([]))
    const status = merge(first, 'b', report([state]))
    expect(conditionsIn(status).Discovering).toBe('False PropertyRefused: 1 of 2 nodes; b: no')
    const asked = merge(first, 'a', report([{ phase: 'open', listed: true }]))
    expect(conditionsIn(merge(asked, 'b', report([state]))).HandlerConnected).toBe(
      'True Connected: 1 of 2 nodes; a: cam@0',
    )
  })

  it('keeps the time of a condition while its status is the same', () => {
    const first = merge(undefined, 'a', report([{ phase: 'open', listed: false }]), 'one')
    const second = merge(first, 'a', report([{ phase: 'open', listed: true }]), 'two')
    const times = Object.fromEntries(
      second.conditions.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
    )
    expect(times).toEqual({ HandlerConnected: 'one', Discovering: 'two', Ready: 'two' })
  })
})
