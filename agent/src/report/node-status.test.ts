import type { Configuration, ConfigurationName, InstanceName, NodeStatus } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import type { DeviceReport } from '@akrijs/sdk/handler'
import { describe, expect, it } from 'vitest'
import type { DeviceBound, DeviceSet } from '../discovery/device-set.js'
import type { HandlerAnswer, SessionFailure, SessionState } from '../discovery/discovery-session.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import { configurationWith } from '../testing/objects.js'
import { mergeReports } from './device-reports.js'
import { nodeStatus, refusedStatus } from './node-status.js'

interface World extends Partial<Parameters<typeof nodeStatus>[0]> {
  readonly states?: readonly SessionState[]
  /** Of each endpoint. @default those of an endpoint with a list are fresh */
  readonly answer?: HandlerAnswer
}

const listed: SessionState = { phase: 'open', listed: true }
const unlisted: SessionState = { phase: 'open', listed: false }
const opening: SessionState = { phase: 'opening' }
const refused: SessionState = { phase: 'refused', message: 'no' }
const [WAITING, WRONG] = ['Unknown Waiting', 'False InvalidDetails']
function failed(reason: SessionFailure): SessionState {
  return { phase: 'failed', reason, message: 'no' }
}

/** The states, and the three conditions, of a session that fails. */
function failing(reason: SessionFailure, connected: string, ready: string) {
  const state = connected === 'Unknown' ? `Unknown ${reason}` : connected
  return [[failed(reason)], state, `False ${reason}`, `False ${ready}`] as const
}

/** By default of a handler that lists no device. */
function statusOf({ states = [listed], answer, ...more }: World = {}): NodeStatus {
  const devices = more.devices ?? setOf()
  const endpoints = states.map((state, index) => ({
    uid: `cam@${index}`,
    state,
    answer: answer ?? (state === listed ? 'fresh' : 'missing'),
  }))
  return nodeStatus({
    configuration: { metadata: { generation: 3 } } as Configuration,
    discovery: { handler: 'cam', endpoints },
    collisions: [],
    refusals: [],
    taken: [],
    held: [],
    registrations: [],
    reports: undefined,
    present: devices.devices.size,
    ...more,
    devices,
  })
}

const conditionOf = ({ conditions }: NodeStatus, of = 'Ready') => {
  const { status, reason, message } = conditions.find(({ type }) => type === of) ?? expect.fail()
  return `${status} ${reason}: ${message}`
}
const ready = (world: World) => conditionOf(statusOf(world))

const device = { device: { id: 'x', hash: '' }, shared: true, healthy: true, endpoint: 'cam@0' }
function setOf(...devices: Partial<typeof device & { refusal: string }>[]): DeviceSet {
  const found = devices.map((more, index) => [`${index}`, { ...device, ...more }] as const)
  return { devices: new Map(found), complete: true, leftOut: undefined }
}
const one = setOf({})
const lost = setOf({ healthy: false })

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

it.each<[string, readonly SessionState[], connected: string, discovering: string, ready: string]>([
  ['no handler', [], 'False NoHandler', 'Unknown Waiting', 'False NoHandler'],
  ['a handler that is being asked', [opening], 'Unknown Connecting', WAITING, WAITING],
  ['a stream without a list', [unlisted], 'True Connected', WAITING, WAITING],
  ['a stream with a list', [listed], 'True Connected', 'True Listening', 'True NoDevices'],
  ['refused details', [refused], 'True Connected', WRONG, WRONG],
  ['nothing at the endpoint', ...failing('Unreachable', 'False Unreachable', 'HandlerFailed')],
  ['a missing Secret', ...failing('MissingProperty', 'Unknown', 'SecretNotReadable')],
  ['a Secret without consent', ...failing('PropertyRefused', 'Unknown', 'NoConsent')],
  ['a Secret that is not read', ...failing('UnreadableProperty', 'Unknown', 'SecretNotReadable')],
  [
    'one of two that fails',
    [listed, failed('HandlerFailed')],
    'True Connected',
    'False HandlerFailed',
    'False HandlerFailed',
  ],
])('the conditions name %s', (_, states, ...expected) => {
  const conditions = statusOf({ states }).conditions.map(
    ({ type, status, reason }) => `${type}: ${status} ${reason}`,
  )
  const types = ['HandlerConnected', 'Discovering', 'Ready']
  expect(conditions).toEqual(types.map((type, index) => `${type}: ${expected[index]}`))
})

describe('Ready of a node', () => {
  it.each<[string, World, string]>([
    [
      'has no "0 devices" alone',
      { reports: [] },
      'True NoDevices: 0 devices; the handler saw none; it gives no reason: check ' +
        'discoveryDetails, and run `akri discover` with them on the node',
    ],
    [
      'has no "0 devices" alone of a handler that cannot tell',
      {},
      'True NoDevices: 0 devices; the log of the handler can say why',
    ],
    [
      'counts what is left out',
      { reports: [leftOut('HTTP 401', 2, 'http://10.0.0.7/'), leftOut('filtered by scopes', 1)] },
      'True DevicesLeftOut: 0 devices; 3 not offered: 2 x HTTP 401 (such as http://10.0.0.7/), ' +
        '1 x filtered by scopes',
    ],
    [
      'has remarks on the discovery as a whole, if there is no device',
      { reports: [leftOut('no events arrive', 0)] },
      'True NoDevices: 0 devices; the handler saw none; no events arrive',
    ],
    [
      'has no remarks beside devices',
      { reports: [leftOut('no events arrive', 0)], devices: one },
      'True AllDevicesServed: 1 devices',
    ],
    [
      'has the problems of devices',
      {
        reports: [{ ...leftOut('refused', 1, 'x'), listed: true }, leftOut('HTTP 401', 1, 'y')],
        devices: one,
      },
      'False DeviceProblems: 1 devices; 1 with a problem: 1 x refused (such as x); ' +
        '1 not offered: 1 x HTTP 401 (such as y)',
    ],
    [
      'says how many devices have an Instance',
      { devices: setOf({}, {}), present: 1 },
      'Unknown Progressing: 1 of 2 devices have an Instance',
    ],
    [
      'has the first resource that the kubelet refuses',
      {
        devices: one,
        registrations: ['b', 'c', 'a'].map((name) => problem(`akri.sh/${name}`, name !== 'b')),
      },
      'False RegistrationRefused: no akri.sh/a; other resources too',
    ],
    [
      'has a kubelet that is away',
      { devices: one, registrations: [problem('akri.sh/a', false)] },
      'False KubeletUnavailable: no akri.sh/a',
    ],
    [
      'has Instances that are being deleted while their devices are there',
      { devices: one, held: [{ name: 'cam-1' as InstanceName, finalizers: [...'abcd'] }] },
      'False InstanceBeingDeleted: 1 of 1 devices are not offered: their Instances are being ' +
        'deleted, and finalizers hold them; cam-1: a, b, c, …',
    ],
    [
      'has the owner of a name before a collision and before lost devices',
      {
        devices: lost,
        collisions: [{ kept: 'a', refused: 'b' }],
        taken: [{ device: 'foo0', owner: objectKey('line', 'cam-8120fe') }],
      },
      'False NameTaken: device "foo0" has no Instance: the older Configuration line/cam-8120fe ' +
        'has its name, and resources are named without a namespace; choose another name for one ' +
        'of the two Configurations',
    ],
    [
      'counts the devices without a name of their own',
      { devices: lost, collisions: [...'bca'].map((refused) => ({ kept: 'x', refused })) },
      'False DigestCollision: devices "x" and "a" have the same digest; the second has no ' +
        'Instance; others without one: 2',
    ],
    [
      'has refused devices before lost ones',
      { devices: setOf({ healthy: false, refusal: 'handler cam may not' }, { healthy: false }) },
      'False DeviceRefused: 1 of 2 devices are not offered; device "x": handler cam may not',
    ],
    [
      'has refused details before lost devices',
      { devices: lost, states: [refused] },
      'False InvalidDetails: no',
    ],
    [
      'has devices that no handler vouches for',
      { devices: lost },
      'False HandlerLost: 1 of 1 devices are not vouched for by their handler',
    ],
    [
      'has the reason of lost devices',
      { devices: lost, states: [] },
      'False HandlerLost: 1 of 1 devices are not vouched for by their handler: no handler cam is ' +
        'loaded or has registered; load it in the agent, or look at the Pod of the handler and ' +
        'its log',
    ],
  ])('%s', (_, world, expected) => {
    expect(ready(world)).toBe(expected)
  })

  it('names the same of several problems in any order: each change is an Event', () => {
    const ids = ['b', 'a', 'c']
    const collisions = ids.map((id) => ({ kept: 'x', refused: id }))
    const held = ids.map((id) => ({ name: `cam-${id}` as InstanceName, finalizers: [id] }))
    const taken = ids.map((id) => ({ device: id, owner: objectKey('line', 'cam') }))
    const refused = ids.map((id) => ({ device: { id, hash: '' }, healthy: false, refusal: 'no' }))
    for (const world of [{ collisions }, { held }, { taken }, { devices: setOf(...refused) }])
      expect(ready(world)).toMatch(/"a" (has no|have the same)|cam-a: a|device "a": no/)
  })

  it.each<[string, World, string]>([
    // A list of an endpoint that left, from before a restart of the agent.
    ['is True with a list', { devices: { ...setOf(), complete: false } }, 'True NoDevices'],
    [
      'waits for handlers to register',
      { states: [], devices: { ...setOf(), complete: false } },
      'Unknown NoHandler',
    ],
    ['stays if a handler fails for a moment', after('fresh', 'HandlerFailed'), 'True NoDevices'],
    ['has a handler that fails', after('old', 'HandlerFailed'), 'False HandlerFailed'],
    ['stays without a Secret for a moment', after('fresh', 'MissingProperty'), 'True NoDevices'],
    ['has a missing Secret', after('old', 'MissingProperty'), 'False SecretNotReadable'],
    ['has a handler that left and had none', after('old', 'Unreachable'), 'False NoHandler'],
    [
      'does not wait for an endpoint that another one has replaced',
      { states: [listed, failed('Unreachable')] },
      'True NoDevices',
    ],
    ['has a handler away after an edit', after('missing', 'Unreachable'), 'False HandlerFailed'],
  ])('%s', (_, world, expected) => {
    expect(ready(world)).toContain(`${expected}: `)
  })

  it('counts what two endpoints left out once, and shows five reasons at most', () => {
    const reasons = Array.from({ length: 21 }, (_, n) =>
      leftOut(`reason ${n}`, 21 - n, 'i'.repeat(300)),
    )
    const text = ready({ reports: mergeReports([reasons, undefined, [leftOut('reason 0', 9)]]) })
    expect(text).toMatch(/^True DevicesLeftOut: 0 devices; 231 not offered: 21 x reason 0 /)
    expect(text).toMatch(/17 x reason 4 \(such as i{80}…\), 16 more reasons$/)
    expect(text.length).toBeLessThan(1024)
  })

  it.each([
    ['full', /^False TooManyResources: 2 resources are not offered: .* --max-resource-names/],
    ['soon', /^False TooManyResources: 2 resources are not offered: .* --new-resource-names/],
  ] as const)('counts resources with new names beyond a bound (%s)', (why, message) => {
    const refusal = { why, retryInMs: 1000 }
    expect(ready({ states: [], refusals: [refusal, refusal] })).toMatch(message)
  })

  it.each<[DeviceBound, RegExp]>([
    ['perConfiguration', /one Configuration; --max-configuration-devices of the agent raises it$/],
    ['perNode', /all Configurations .* --max-devices/],
    ['perNamespace', /one namespace, half .* --max-devices/],
    ['slots', /a smaller capacity .* --max-slots/],
    ['slotsPerNamespace', /one namespace; .* --max-slots/],
  ])('counts devices beyond a bound, and names the bound and its option (%s)', (bound, message) => {
    const beyond = { devices: 1500, bound, listed: new Map() }
    const status = statusOf({ devices: { ...one, leftOut: beyond } })
    expect(status).toMatchObject({ devices: 1, leftOut: 1500 })
    const text = conditionOf(status)
    expect(text).toMatch(/^False TooManyDevices: 1500 devices are left out and 1 are served: /)
    expect(text).toMatch(message)
    expect(statusOf()).not.toHaveProperty('leftOut')
  })

  it.each<[string, RegExp]>([
    ['cam', /^False NameTaken: Configuration cam of namespace factory is older, and/],
    ['cam-8120fe', /is older and could have an Instance of this name, and .* choose another name$/],
  ])('names the older Configuration that refuses the name %s', (name, message) => {
    const rival = configurationWith({}, { name: 'cam' as ConfigurationName, namespace: 'factory' })
    const refused = configurationWith({}, { name: name as ConfigurationName, namespace: 'line' })
    expect(conditionOf(refusedStatus(refused, rival))).toMatch(message)
  })
})

it.each([
  [
    'camera \u001b[2J\u009b1m\u202eeno\ud800\r\nEvents:',
    'camera \ufffd[2J\ufffd1m\ufffdeno\ufffd\n| Events:',
  ],
  ['x'.repeat(2000), `${'x'.repeat(1021)}…`],
])('a message is in its bounds and without control characters (%#)', (message, stored) => {
  const status = statusOf({ states: [{ phase: 'refused', message }] })
  expect(conditionOf(status)).toBe(`False InvalidDetails: ${stored}`)
})

it('Discovering has remarks on the discovery as a whole', () => {
  const status = statusOf({ reports: [leftOut('no events arrive', 0)], devices: one })
  expect(conditionOf(status, 'Discovering')).toBe(
    'True Listening: the handler tells of changes; no events arrive',
  )
})

function after(answer: HandlerAnswer, reason: SessionFailure): World {
  return { states: [failed(reason)], answer }
}
