import type { Configuration, ConfigurationName, Instance, NodeStatus } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { configurationWith } from '../../testing/objects.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { SessionState } from '../discovery/discovery-session.js'
import type { NameRefusal } from '../instances/resource-names.js'
import { mergeStatus } from './merge-status.js'
import { nodeStatus, refusedStatus } from './node-status.js'

const configuration = { metadata: { generation: 3 } } as Configuration
const noDevices: DeviceSet = { devices: new Map(), complete: true, leftOut: undefined }
const device = (healthy: boolean) => ({ device: { id: 'x' }, shared: true, healthy, endpoint: 'e' })

function report(
  states: readonly SessionState[],
  devices: DeviceSet = noDevices,
  instances: readonly Instance[] = [],
  refusals: readonly NameRefusal[] = [],
): NodeStatus {
  const endpoints = states.map((state, index) => ({ uid: `cam@${index}`, state }))
  return nodeStatus({
    configuration,
    discovery: { handler: 'cam', endpoints },
    devices,
    collisions: [],
    refusals,
    taken: [],
    instances,
  })
}

const brief = ({ conditions }: NodeStatus) =>
  Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]))

describe('the status of a Configuration on a node', () => {
  it('names the older Configuration with the name of an Instance in any case', () => {
    const owner = objectKey('line', 'cam-8120fe')
    const status = nodeStatus({
      configuration,
      discovery: { handler: 'cam', endpoints: [] },
      devices: { ...noDevices, devices: new Map([['x', device(false)]]) },
      collisions: [{ digest: 'a19705', kept: 'a', refused: 'b' }],
      refusals: [],
      taken: [{ device: 'foo0', owner }],
      instances: [],
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
    ['no handler', [], { HandlerConnected: 'False NoHandler', Discovering: 'Unknown Waiting' }],
    [
      'a handler that is being asked',
      [{ phase: 'opening' }],
      { HandlerConnected: 'Unknown Connecting', Discovering: 'Unknown Waiting' },
    ],
    [
      'a stream without a list',
      [{ phase: 'open', listed: false }],
      { HandlerConnected: 'True Connected', Discovering: 'Unknown Waiting' },
    ],
    [
      'a stream with a list',
      [{ phase: 'open', listed: true }],
      { HandlerConnected: 'True Connected', Discovering: 'True Listening' },
    ],
    [
      'refused details',
      [{ phase: 'refused', message: 'no' }],
      { HandlerConnected: 'True Connected', Discovering: 'False InvalidDetails' },
    ],
    [
      'noDevices at the endpoint',
      [{ phase: 'failed', reason: 'Unreachable', message: 'no' }],
      { HandlerConnected: 'False Unreachable', Discovering: 'False Unreachable' },
    ],
    [
      'a missing Secret',
      [{ phase: 'failed', reason: 'MissingProperty', message: 'no' }],
      { HandlerConnected: 'Unknown MissingProperty', Discovering: 'False MissingProperty' },
    ],
    [
      'a Secret of another namespace that does not consent',
      [{ phase: 'failed', reason: 'PropertyRefused', message: 'no' }],
      { HandlerConnected: 'Unknown PropertyRefused', Discovering: 'False PropertyRefused' },
    ],
    [
      'a Secret that cannot be read',
      [{ phase: 'failed', reason: 'UnreadableProperty', message: 'no' }],
      { HandlerConnected: 'Unknown UnreadableProperty', Discovering: 'False UnreadableProperty' },
    ],
    [
      'one of two that fails',
      [
        { phase: 'open', listed: true },
        { phase: 'failed', reason: 'HandlerFailed', message: 'no' },
      ],
      { HandlerConnected: 'True Connected', Discovering: 'False HandlerFailed' },
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
    const instances = [{ spec: { deviceUsage: {} } } as Instance]
    expect(brief(report(open, oneDevice(true), instances)).Ready).toBe('True AllDevicesServed')
    expect(brief(report(open, oneDevice(true))).Ready).toBe('Unknown Progressing')
    expect(brief(report(open, oneDevice(false), instances)).Ready).toBe('False HandlerLost')
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
    expect(
      brief(report(open, { devices: new Map(), complete: false, leftOut: undefined })).Ready,
    ).toBe('Unknown Waiting')
  })
})

describe('resources with new names beyond a bound', () => {
  it.each([
    ['full', /^2 resources are not offered: .* --max-resource-names/],
    ['soon', /^2 resources are not offered: .* --new-resource-names/],
  ] as const)('are counted, and the condition names the option (%s)', (why, message) => {
    const refusal = { why, retryInMs: 1000 }
    const { conditions } = report([], noDevices, [], [refusal, refusal])
    expect(conditions.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'TooManyResources',
      message: expect.stringMatching(message),
    })
  })
})

describe('devices beyond a bound', () => {
  const beyond = (bound: 'perNode' | 'perConfiguration' | 'slots') =>
    report([{ phase: 'open', listed: true }], {
      devices: new Map([['x', device(true)]]),
      complete: true,
      leftOut: { devices: 1500, bound },
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
    expect(ready(beyond('slots'))?.message).toMatch(/a smaller capacity .* --max-slots/)
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
  const conditionsOf = (status: ReturnType<typeof merge>) =>
    Object.fromEntries(
      status.conditions.map(({ type, status: is, reason, message }) => [
        type,
        `${is} ${reason}: ${message}`,
      ]),
    )

  it('is the status of the only node', () => {
    const status = merge(undefined, 'a', report([{ phase: 'open', listed: true }]))
    expect(conditionsOf(status)).toMatchObject({
      HandlerConnected: 'True Connected: cam@0',
      Ready: 'True AllDevicesServed: 0 devices',
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
    expect(conditionsOf(status)).toEqual({
      HandlerConnected: 'True Connected: 1 of 2 nodes; a: cam@0',
      Discovering: 'True Listening: 1 of 2 nodes; a: the handler tells of changes',
      Ready:
        'False HandlerLost: 1 of 2 nodes; b: 1 of 1 devices are not vouched for by their handler',
    })
    expect(Object.keys(status.nodes)).toEqual(['a', 'b'])
  })

  it('shows refused details, although another node may still listen', () => {
    const first = merge(undefined, 'a', report([{ phase: 'open', listed: true }]))
    const status = merge(first, 'b', report([{ phase: 'refused', message: 'udevRules[0]: no' }]))
    expect(conditionsOf(status).Discovering).toBe(
      'False InvalidDetails: 1 of 2 nodes; b: udevRules[0]: no',
    )
  })

  it('shows a refused property, although another node has no handler', () => {
    const state = { phase: 'failed', reason: 'PropertyRefused', message: 'no' } as const
    const first = merge(undefined, 'a', report([]))
    const status = merge(first, 'b', report([state]))
    expect(conditionsOf(status).Discovering).toBe('False PropertyRefused: 1 of 2 nodes; b: no')
    const asked = merge(first, 'a', report([{ phase: 'open', listed: true }]))
    expect(conditionsOf(merge(asked, 'b', report([state]))).HandlerConnected).toBe(
      'True Connected: 1 of 2 nodes; a: cam@0',
    )
  })

  it('keeps the time of a condition while its status is the same', () => {
    const first = merge(undefined, 'a', report([{ phase: 'open', listed: false }]), 'one')
    const second = merge(first, 'a', report([{ phase: 'open', listed: true }]), 'two')
    const times = Object.fromEntries(
      second.conditions.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
    )
    expect(times).toEqual({ HandlerConnected: 'one', Discovering: 'two', Ready: 'one' })
  })
})
