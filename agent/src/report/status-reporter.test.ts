import type { Configuration, DeviceProblem, InstanceName, NodeStatus } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectEvent, objectKey } from '@akrijs/kube/objects'
import { type Logger, SocketUnusableError, silentLogger } from '@akrijs/runtime'
import { beforeEach, describe, expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { DiscoveryStatus } from '../discovery/configuration-discovery.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { HeldInstance } from '../instances/instance-reconciler.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import { configurationWith } from '../testing/objects.js'
import type { ServedDevice } from './device-problems.js'
import { StatusReporter } from './status-reporter.js'

const NODE = 'node-a' as NodeName
const LISTENING: DiscoveryStatus = {
  handler: 'told',
  endpoints: [{ uid: 'told@x', state: { phase: 'open', listed: true }, answer: 'fresh' }],
}
const device = (id: string) =>
  [id, { device: { id, hash: '' }, shared: false, endpoint: 'told@x', healthy: true }] as const
const cam = configurationWith(
  {},
  { uid: 'cam', generation: 3, creationTimestamp: '2026-01-01T00:00:00Z' },
)
const key = keyOf(cam)

let configurations: ObjectStore<Configuration>
/** The devices that have an Instance. */
let present: number
let held: HeldInstance[]
let logged: string[]
let discovery: DiscoveryStatus | undefined
let devices: DeviceSet
let reports: NodeStatus[]
let reportedProblems: (readonly DeviceProblem[] | undefined)[]
let served: ServedDevice[]
let registrations: RegistrationProblem[]
let lost: InstanceName[]
let events: ObjectEvent[]
let reporter: StatusReporter

beforeEach(() => {
  configurations = new ObjectStore()
  configurations.put(cam)
  present = 0
  held = []
  logged = []
  const log: Logger = {
    ...silentLogger,
    info: (_fields, message) => void logged.push(`info: ${message}`),
    warn: (_fields, message) => void logged.push(`warn: ${message}`),
  }
  discovery = LISTENING
  const found = ['a', 'b'].map(device)
  devices = { devices: new Map(found), complete: true, leftOut: undefined }
  reports = []
  reportedProblems = []
  served = []
  registrations = []
  lost = []
  events = []
  reporter = new StatusReporter({
    cluster: {
      configurations,
      reportStatus: async (_, node, status, problems) => {
        expect(node).toBe(NODE)
        reports.push(status)
        reportedProblems.push(problems)
      },
      recordEvent: (event) => void events.push(event),
    },
    configurations: new AcceptedConfigurations(configurations, new AbortController().signal),
    discovery: { status: () => discovery, deviceSet: () => devices },
    reconciler: {
      collisions: () => [],
      held: () => held,
      present: () => present,
      refusals: () => [],
      served: () => served,
      taken: () => [],
    },
    plugins: { registrationProblems: () => registrations },
    book: { lost: () => lost },
    node: NODE,
    log,
  })
})

const ready = async (failure?: unknown) => {
  await reporter.report(key, failure)
  const { conditions = [] } = reports.at(-1) ?? {}
  const { status, reason, message } = conditions.find(({ type }) => type === 'Ready') ?? {}
  return `${status} ${reason}: ${message}`
}

describe('the status that an agent reports', () => {
  it('is ready when every device has an Instance, and says before how many have', async () => {
    expect(await ready()).toBe('Unknown Progressing: 0 of 2 devices have an Instance')
    present = 1
    expect(await ready()).toBe('Unknown Progressing: 1 of 2 devices have an Instance')
    present = 2
    expect(await ready()).toMatch(/^True /)
    expect(reports.at(-1)).toMatchObject({ observedGeneration: 3, devices: 2 })
    present = 1
    expect(await ready()).toMatch(/^Unknown Progressing/)
  })

  it('has the failure of a reconcile, and an Event for it', async () => {
    present = 2
    const refusal = new SocketUnusableError('the API server refuses')
    expect(await ready(refusal)).toBe('False ReconcileFailed: the API server refuses')
    expect(events).toMatchObject([{ type: 'Warning', regarding: { key } }])
    expect(await ready()).toMatch(/^True /)
  })

  it('tells of an Instance that a finalizer holds: in Ready, an Event and the log', async () => {
    present = 2
    expect(await ready()).toMatch(/^True /)
    held = [{ name: 'cam-a' as InstanceName, finalizers: ['node-b'] }]
    for (let pass = 0; pass < 2; pass++)
      expect(await ready()).toMatch(/^False InstanceBeingDeleted: 1 of 2 .* cam-a: node-b$/)
    held = []
    expect(await ready()).toMatch(/^True /)
    expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Warning InstanceBeingDeleted',
      'Normal AllDevicesServed',
    ])
    expect(logged).toEqual([
      'warn: Instance is being deleted while its device is there: finalizers hold it',
      'info: no Instance is held any more',
    ])
  })

  it('is not ready without the kubelet, also with every device', async () => {
    present = 2
    registrations = [{ resourceName: 'akri.sh/a', isRefused: true, message: 'not so' }]
    expect(await ready()).toBe('False RegistrationRefused: not so')
    registrations = []
    expect(await ready()).toMatch(/^True /)
    expect(events.map(({ type }) => type)).toEqual(['Warning', 'Normal'])
  })

  it('is InternalError if it cannot be computed', async () => {
    Object.defineProperty(devices, 'devices', {
      get() {
        throw new TypeError('devices is broken')
      },
    })
    expect(await ready()).toBe('False InternalError: devices is broken')
  })

  it('is NameTaken beside an older Configuration of the name', async () => {
    const creationTimestamp = '2020-01-01T00:00:00Z'
    configurations.put(
      configurationWith({}, { uid: 'older', namespace: 'line', creationTimestamp }),
    )
    expect(await ready()).toMatch(/^False NameTaken: .* of namespace line is older/)
  })

  it('has the problems of devices as soon as a handler has listed its devices', async () => {
    served = [{ key: objectKey('default', 'cam-a'), device: { id: 'a' }, existing: undefined }]
    const reports = [{ reason: 'refused', count: 1, ids: ['a'], listed: true }]
    for (const [state, reported, expected] of [
      [{ phase: 'opening' }, undefined, undefined],
      [{ phase: 'open', listed: false }, undefined, undefined],
      [{ phase: 'open', listed: true }, reports, [{ reason: 'refused', instances: ['cam-a'] }]],
      [{ phase: 'failed', reason: 'Unreachable', message: '' }, undefined, undefined],
      [{ phase: 'open', listed: true }, undefined, []],
    ] as const) {
      discovery = {
        handler: 'told',
        endpoints: [{ uid: 'told@x', state, answer: 'fresh', reports: reported }],
      }
      await reporter.report(key)
      expect(reportedProblems.at(-1)).toEqual(expected)
    }
  })

  it('has the devices that the kubelet has as unhealthy, also without any handler', async () => {
    served = ['a', 'b'].map((id) => {
      return { key: objectKey('default', `cam-${id}`), device: { id }, existing: undefined }
    })
    const [a, b] = ['a', 'b'].map(device)
    const unhealthy = { ...b?.[1], healthy: false }
    const set = (second: object) => {
      const found = [a, ['b', { ...unhealthy, ...second }]] as const
      devices = { ...devices, devices: new Map(found as never) }
    }
    const found = async () => {
      await reporter.report(key)
      return reportedProblems.at(-1)?.map(({ found, instances }) => [found, ...instances])
    }
    discovery = { handler: 'told', endpoints: [] }
    expect(await found()).toBeUndefined()
    set({})
    expect(await found()).toEqual([['HandlerLost', 'cam-b']])
    set({ refusal: 'it mounts /etc' })
    expect(await found()).toEqual([['DeviceRefused', 'cam-b']])
    expect(reportedProblems.at(-1)?.[0]?.reason).toBe('no Pod gets the device: it mounts /etc')
    lost = ['cam-c' as InstanceName]
    expect(await found()).toEqual([
      ['DeviceLost', 'cam-c'],
      ['DeviceRefused', 'cam-b'],
    ])
    lost = []
    set({ healthy: true })
    discovery = LISTENING
    expect(await found()).toEqual([])
  })

  it('is absent before the discovery has begun, and without a Configuration', async () => {
    discovery = undefined
    await reporter.report(key)
    await reporter.report(objectKey('default', 'gone'))
    expect(reports).toEqual([])
  })
})
