import type { Configuration, DeviceProblem, InstanceName, NodeStatus } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectEvent, objectKey } from '@akrijs/kube/objects'
import { SocketUnusableError, silentLogger } from '@akrijs/runtime'
import { beforeEach, describe, expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import type { DiscoveryStatus } from '../discovery/discovery.js'
import type { PlannedInstance } from '../instances/instance-plan.js'
import type { HeldInstance } from '../instances/instances-view.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import {
  configurationWith,
  found,
  instanceWith,
  NODE,
  setOf as ofDevices,
  plannedWith,
} from '../testing/objects.js'
import { StatusReporter } from './status-reporter.js'

type Endpoint = DiscoveryStatus['endpoints'][number]
const LISTED: Endpoint = {
  uid: 'told@x',
  state: { phase: 'open', listed: true },
  answer: 'fresh',
}
const VIEW = { present: 2, collisions: [], refusals: [], taken: [] }
const cam = configurationWith({}, { uid: 'cam', generation: 3, creationTimestamp: '2026-01-01' })
const key = keyOf(cam)

let configurations: ObjectStore<Configuration>
/** What the other parts of the agent know. */
let world: {
  /** Undefined before the discovery has begun. */
  endpoints: readonly Endpoint[] | undefined
  devices: DeviceSet
  held: HeldInstance[]
  registrations: RegistrationProblem[]
  served: PlannedInstance[]
  lost: InstanceName[]
}
let reported: { status: NodeStatus; problems: readonly DeviceProblem[] | undefined } | undefined
let logged: string[]
let events: ObjectEvent[]
let reporter: StatusReporter

beforeEach(() => {
  configurations = new ObjectStore()
  configurations.put(cam)
  reported = undefined
  logged = []
  events = []
  world = {
    endpoints: [LISTED],
    devices: setOf({}, {}),
    held: [],
    registrations: [],
    served: ['a', 'b'].map((id) => plannedWith(id)),
    lost: [],
  }
  const note = (_: object, message: string) => void logged.push(message)
  reporter = new StatusReporter({
    cluster: {
      configurations,
      reportStatus: async (_, node, status, problems) => {
        expect(node).toBe(NODE)
        reported = { status, problems }
      },
      recordEvent: (event) => void events.push(event),
    },
    configurations: new AcceptedConfigurations(configurations, new AbortController().signal),
    discovery: {
      status: () => world.endpoints && { handler: 'told', endpoints: world.endpoints },
      deviceSet: () => world.devices,
    },
    reconciler: { view: () => ({ ...VIEW, held: world.held, served: byName(world.served) }) },
    plugins: { registrationProblems: (of) => (of === key ? world.registrations : []) },
    book: { lost: () => world.lost },
    node: NODE,
    log: { ...silentLogger, info: note, warn: note },
  })
})

const byName = (all: readonly PlannedInstance[]) => new Map(all.map((each) => [each.name, each]))

/** The devices `a` and `b`. */
function setOf(...devices: [Partial<DiscoveredDevice>, Partial<DiscoveredDevice>]): DeviceSet {
  return ofDevices(...devices.map((more, index) => found({ id: 'ab'.charAt(index) }, more)))
}

/** The Events since the last call. */
const recorded = (kind: string) =>
  events
    .splice(0)
    .flatMap(({ regarding, type, reason, message }) =>
      regarding.kind === kind ? `${type} ${reason}: ${message}` : [],
    )

async function ready(failure?: unknown): Promise<string> {
  await reporter.report(key, failure)
  const { conditions = [] } = reported?.status ?? {}
  const { status, reason, message } = conditions.find(({ type }) => type === 'Ready') ?? {}
  return `${status} ${reason}: ${message}`
}

describe('the status that an agent reports', () => {
  it('has the failure of a reconcile, and an Event for it, also after a new start', async () => {
    const refusal = new SocketUnusableError('the API server refuses')
    const fails = async () =>
      expect(await ready(refusal)).toBe('False ReconcileFailed: the API server refuses')
    await fails()
    await fails()
    expect(events).toMatchObject([{ type: 'Warning', regarding: { key } }])
    const { endpoints } = world
    world.endpoints = undefined
    await reporter.report(key)
    world.endpoints = endpoints
    await fails()
    expect(events).toHaveLength(2)
    expect(await ready()).toBe('True AllDevicesServed: 2 devices')
    expect(reported?.status).toMatchObject({ observedGeneration: 3, devices: 2 })
  })

  it('has one Event for a problem in two conditions, for the next, and for the end', async () => {
    const failed = { phase: 'failed', reason: 'HandlerFailed', message: 'bus lost' } as const
    const [begun, over] = ['Warning HandlerFailed: bus lost', 'Normal Connected: told@x']
    const steps: [state: Endpoint['state'], ...expected: string[]][] = [
      [LISTED.state],
      [failed, begun],
      [failed],
      [{ phase: 'opening' }],
      [failed],
      [{ phase: 'refused', message: 'udevRules[0]' }, over, 'Warning InvalidDetails: udevRules[0]'],
      [
        LISTED.state,
        'Normal Listening: the handler tells of changes',
        'Normal AllDevicesServed: 2 devices',
      ],
      [LISTED.state],
    ]
    for (const [state, ...expected] of steps) {
      world.endpoints = [{ ...LISTED, state }]
      await reporter.report(key)
      expect(recorded('Configuration')).toEqual(expected)
    }
  })

  it('has an Event for the problem of a device and for its end, on its first node', async () => {
    const eventsOf = async (reason: string | undefined, ...nodes: string[]) => {
      const report = { reason: reason ?? '', count: 1, ids: ['a'], listed: reason !== undefined }
      world.endpoints = [{ ...LISTED, reports: [report] }]
      const existing = instanceWith({}, { nodes: nodes as NodeName[] })
      world.served = world.served.map((each) => ({ ...each, existing }))
      await reporter.report(key)
      return recorded('Instance')
    }
    const begun = ['Warning DeviceProblem: refused']
    expect(await eventsOf('refused', 'node-b', NODE)).toEqual([])
    expect(await eventsOf('refused')).toEqual([])
    expect(await eventsOf('refused', NODE)).toEqual(begun)
    expect(await eventsOf('refused', NODE, 'node-b')).toEqual([])
    expect(await eventsOf('slow', NODE)).toEqual(['Warning DeviceProblem: slow'])
    expect(await eventsOf(undefined, NODE)).toEqual(['Normal DeviceProblemOver: slow'])
    expect(await eventsOf(undefined, NODE)).toEqual([])
  })

  it('tells of a resource that the kubelet refuses', async () => {
    const resourceName = 'akri.sh/cam'
    world.registrations = [{ resourceName, isRefused: true, message: 'no room' }]
    expect(await ready()).toBe('False RegistrationRefused: no room')
    world.registrations = []
    expect(await ready()).toMatch(/^True /)
  })

  it('tells of an Instance that a finalizer holds: in Ready, an Event and the log', async () => {
    expect(await ready()).toMatch(/^True /)
    world.held = [{ name: 'cam-a' as InstanceName, finalizers: ['node-b'] }]
    for (let pass = 0; pass < 2; pass++)
      expect(await ready()).toMatch(/^False InstanceBeingDeleted: 1 of 2 .* cam-a: node-b$/)
    world.held = []
    expect(await ready()).toMatch(/^True /)
    expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Warning InstanceBeingDeleted',
      'Normal AllDevicesServed',
    ])
    expect(logged).toEqual([
      'Instance is being deleted while its device is there: finalizers hold it',
      'no Instance is held any more',
    ])
  })

  it('is InternalError if it cannot be computed', async () => {
    world.devices = Object.defineProperty({ ...world.devices }, 'devices', {
      get() {
        throw new TypeError('devices is broken')
      },
    })
    expect(await ready()).toBe('False InternalError: devices is broken')
  })

  it('is NameTaken beside an older Configuration of the name', async () => {
    const metadata = { uid: 'older', namespace: 'line', creationTimestamp: '2020-01-01' }
    configurations.put(configurationWith({}, metadata))
    expect(await ready()).toMatch(/^False NameTaken: .* of namespace line is older/)
  })

  it('is absent before the discovery has begun, and without a Configuration', async () => {
    world.endpoints = undefined
    await reporter.report(key)
    await reporter.report(objectKey('default', 'gone'))
    expect(reported).toBeUndefined()
  })

  it.each<[string, Partial<Endpoint>, readonly DeviceProblem[] | undefined]>([
    ['no handler has answered', { state: { phase: 'opening' } }, undefined],
    ['no list has come', { state: { phase: 'open', listed: false } }, undefined],
    [
      'a list has come with a problem',
      { reports: [{ reason: 'refused', count: 1, ids: ['a'], listed: true }] },
      [{ reason: 'refused', instances: ['cam-a' as InstanceName] }],
    ],
    ['a list has come without a problem', {}, []],
  ])('has the problems of devices when %s', async (_, endpoint, expected) => {
    world.endpoints = [{ ...LISTED, ...endpoint }]
    await reporter.report(key)
    expect(reported?.problems).toEqual(expected)
  })

  it.each<[string, Partial<DiscoveredDevice>, readonly string[], string[] | undefined]>([
    ['nothing', {}, [], undefined],
    ['lost devices', { healthy: false }, [], ['HandlerLost cam-b']],
    ['refused devices', { healthy: false, refusal: 'r' }, [], ['DeviceRefused cam-b']],
    ['devices that are gone', {}, ['cam-c'], ['DeviceLost cam-c']],
  ])('has %s, also without any handler', async (_, device, lost, expected) => {
    world.endpoints = []
    world.devices = setOf({}, device)
    world.lost = lost as InstanceName[]
    await reporter.report(key)
    const found = reported?.problems?.map(({ found, instances }) => `${found} ${instances}`)
    expect(found).toEqual(expected)
  })
})
