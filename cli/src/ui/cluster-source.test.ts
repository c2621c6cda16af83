import { API_VERSION } from '@akrijs/api'
import { type ApiClient, PODS, Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import type { UiItem, UiKey } from '@akrijs/ui'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { configurationObject, instanceObject } from '../testing/migrated-objects.js'
import { ClusterSource } from './cluster-source.js'

const BASE = '/apis/akri.sh/v0'
const DEVICE = 'device/plant/cam-8120fe'
const EVENTS = 'events/Instance/plant/cam-8120fe'
const LOST = /^The API server does not answer, .* The reason: (GET|watch) .*\/plant\//

let server: FakeApiServer
let clock: ManualClock
let stop: AbortController
let running: Promise<void>
/** The keys of changes. */
let told: UiKey[]

function putConfiguration(name = 'cam', spec: object = {}, namespace = 'plant') {
  const path = `${BASE}/namespaces/${namespace}/configurations/${name}`
  server.put(path, configurationObject(spec, { name, namespace }))
}

function putDevice(deviceUsage: object = { 'cam-8120fe-0': 'node-a' }, namespace = 'plant') {
  const device = instanceObject({ deviceUsage }, { namespace })
  server.put(`${BASE}/namespaces/${namespace}/instances/cam-8120fe`, device)
}

/** @param connected whether the handler is connected there */
function putReport(node: string, pod: string | undefined, connected = true) {
  const message = connected ? 'none@a' : 'no handler is loaded'
  const status = connected ? 'True' : 'False'
  const condition = { type: 'HandlerConnected', status, reason: 'x', message }
  const conditions = [{ ...condition, lastTransitionTime: '2026-01-02T00:00:00Z' }]
  server.put(`${BASE}/nodereports/${node}`, {
    apiVersion: API_VERSION,
    kind: 'NodeReport',
    metadata: { name: node, uid: node, resourceVersion: '1', creationTimestamp: '2026-01-01' },
    counts: { configurations: 1, ready: 1, devices: 1 },
    configurations: { 'plant/cam': { uid: 'u', observedGeneration: 1, devices: 1, conditions } },
    slots: pod === undefined ? {} : { 'plant/cam-8120fe': [{ slot: 'cam-8120fe-0', pod }] },
  })
}

function putPod(phase: string) {
  const labels = { controller: 'akri.sh', 'akri.sh/instance': 'cam-8120fe' }
  const metadata = { name: 'broker', namespace: 'plant', uid: 'p', labels }
  const creationTimestamp = '2026-01-03T00:00:00Z'
  const pod = { metadata: { ...metadata, creationTimestamp }, spec: {}, status: { phase } }
  server.put('/api/v1/namespaces/plant/pods/broker', pod)
}

function putEvent(name: string, minute: string, more: object = {}) {
  const object = { apiVersion: API_VERSION, kind: 'Instance', namespace: 'plant' }
  server.put(`/api/v1/namespaces/plant/events/${name}`, {
    metadata: { name, namespace: 'plant', uid: name, creationTimestamp: '2026-01-03T00:00:00Z' },
    involvedObject: { ...object, name: 'cam-8120fe', ...more },
    ...{ type: 'Warning', reason: name, message: 'text', count: 2 },
    lastTimestamp: `2026-01-03T00:${minute}:00Z`,
  })
}

async function open({ namespace = 'plant', client = server.client() } = {}) {
  const about = { title: 'plant', isCluster: true }
  const source = new ClusterSource({ about, client, namespace, clock, log: silentLogger })
  source.onChange((key) => told.push(key), stop.signal)
  running = source.run(stop.signal)
  await source.begun()
  told = []
  const item = <Kind extends UiItem['kind']>(kind: Kind, key: string) => {
    const found = source.item(key as UiKey)
    expect(found?.kind).toBe(kind)
    return found as Extract<UiItem, { kind: Kind }>
  }
  return {
    source,
    item,
    outages: () => item('outages', 'outages/all'),
    device: () => item('device', DEVICE),
  }
}

/** Refuses a kind, as a cluster does without the right. */
function forbid(...plurals: readonly string[]) {
  server.refusal = ({ path }) =>
    plurals.some((plural) => path.endsWith(`/${plural}`))
      ? { status: 403, reason: 'Forbidden', message: `cannot list resource ${plurals}` }
      : undefined
}

beforeEach(() => {
  clock = new ManualClock()
  server = new FakeApiServer(clock)
  stop = new AbortController()
  told = []
  putConfiguration()
  putDevice()
  putReport('node-a', 'plant/reader')
})

afterEach(async () => {
  stop.abort()
  await running
  await server.close()
})

describe('the page of a cluster', () => {
  it('has the Configurations, devices, handlers and Events of a namespace', async () => {
    putConfiguration('other', {}, 'lab')
    putDevice({}, 'lab')
    putEvent('Second', '02')
    putEvent('First', '01')
    putEvent('OfPod', '03', { apiVersion: 'v1', kind: 'Pod' })
    const { source, item, outages } = await open()
    const keys = ['configuration/plant/cam', DEVICE, EVENTS, 'handler/none', 'outages/all']
    expect([...source.keys()].sort()).toEqual(keys)
    const { events } = item('events', EVENTS)
    expect(events.map(({ reason }) => reason)).toEqual(['First', 'Second'])
    expect(outages()).toEqual({ kind: 'outages', messages: [], unread: [] })
  })

  it('has those of all namespaces', async () => {
    putConfiguration('other', {}, 'lab')
    const { source } = await open({ namespace: '' })
    expect([...source.keys()]).toContain('configuration/lab/other')
  })

  it('has the Pod that a report names for a slot, and the state of the broker', async () => {
    putReport('node-b', undefined)
    putPod('Running')
    const { device } = await open()
    expect(device()).toMatchObject({
      users: { 'cam-8120fe-0': 'plant/reader' },
      broker: { phase: 'running' },
    })
  })

  it('tells of a device if its slot has another Pod, or its broker changes', async () => {
    putPod('Running')
    const { device } = await open()
    putReport('node-a', 'plant/next')
    await eventually(() => expect(told).toContain(DEVICE))
    expect(device().users).toEqual({ 'cam-8120fe-0': 'plant/next' })
    told = []
    putReport('node-a', undefined)
    await eventually(() => expect(told).toContain(DEVICE))
    expect(device().users).toEqual({})
    told = []
    putPod('Failed')
    await eventually(() => expect(told).toContain(DEVICE))
    expect(device().broker?.phase).toBe('failed')
    told = []
    server.remove('/api/v1/namespaces/plant/pods/broker')
    await eventually(() => expect(told).toContain(DEVICE))
    expect(device().broker).toBeUndefined()
  })

  it('tells of a device that is gone, and of Events that the cluster forgets', async () => {
    putEvent('First', '01')
    const { source } = await open()
    server.remove(`${BASE}/namespaces/plant/instances/cam-8120fe`)
    server.remove('/api/v1/namespaces/plant/events/First')
    await eventually(() => expect(told).toEqual(expect.arrayContaining([DEVICE, EVENTS])))
    for (const key of [DEVICE, EVENTS]) expect(source.item(key as UiKey)).toBeUndefined()
  })

  it('has the newest 100 Events of a device', async () => {
    const minutes = Array.from({ length: 101 }, (_, index) => String(index).padStart(3, '0'))
    for (const minute of minutes) putEvent(`e${minute}`, minute)
    const { events } = (await open()).item('events', EVENTS)
    expect(events.map(({ reason }) => reason)).toEqual(minutes.slice(1).map((each) => `e${each}`))
  })

  it('says on how many nodes a handler is connected, and why not on another', async () => {
    putReport('node-b', undefined, false)
    const { item } = await open()
    expect(item('handler', 'handler/none')).toEqual({
      kind: 'handler',
      name: 'none',
      place: 'on 1 of 2 nodes · node-b: no handler is loaded',
      isConnected: true,
    })
    told = []
    putReport('node-a', undefined, false)
    await eventually(() => expect(told).toContain('handler/none'))
    expect(item('handler', 'handler/none').isConnected).toBe(false)
    for (const node of ['node-a', 'node-b']) server.remove(`${BASE}/nodereports/${node}`)
    await eventually(() =>
      expect(item('handler', 'handler/none')).toMatchObject({
        place: 'no agent has reported it yet',
        isConnected: undefined,
      }),
    )
  })

  it('has a Configuration with a wrong spec, and forgets the handler that it named', async () => {
    const { source, item } = await open()
    putConfiguration('cam', { discoveryHandler: 'none' })
    await eventually(() => expect(told).toContain('handler/none'))
    expect(source.item('handler/none')).toBeUndefined()
    const { object } = item('configuration', 'configuration/plant/cam')
    expect(object.spec.discoveryHandler.name).toBe('')
    expect(object.status?.conditions[0]?.reason).toBe('InvalidConfiguration')
    expect([...source.keys()]).not.toContain('handler/')
  })

  it.each([
    ['pods', 'pods in the namespace plant', 'the states of brokers', []],
    ['events', 'events in the namespace plant', 'the history of devices', ['events']],
    ['instances', 'instances.akri.sh in the namespace plant', 'devices', ['device']],
    [
      'nodereports',
      'nodereports.akri.sh of the cluster',
      'the Pods that use slots, and the states of handlers',
      [],
    ],
  ])('names the right that is missing for %s, and has the rest', async (...missing) => {
    const [plural, what, lacks, unread] = missing
    forbid(plural)
    const { source, outages } = await open()
    const message = `The right to list and watch ${what} is missing: ${lacks} are not shown.`
    expect(outages()).toEqual({ kind: 'outages', messages: [message], unread })
    expect([...source.keys()]).toContain('configuration/plant/cam')
  })

  it('says nothing wrong of brokers, slots and handlers without these rights', async () => {
    putPod('Failed')
    forbid('pods', 'nodereports')
    const { device, item } = await open()
    expect(device()).toMatchObject({ broker: undefined, users: {} })
    expect(item('handler', 'handler/none')).toMatchObject({ isConnected: undefined, place: '' })
  })

  it('goes on when a missing right is granted', async () => {
    forbid('nodereports')
    const { outages, device } = await open()
    expect(outages().messages).toHaveLength(1)
    server.refusal = () => undefined
    told = []
    await inSteps(clock, () => expect(outages().messages).toEqual([]))
    expect(told).toEqual(expect.arrayContaining(['outages/all', 'handler/none', DEVICE]))
    expect(device().users).toEqual({ 'cam-8120fe-0': 'plant/reader' })
  })

  it('has one message while the API server is lost, keeps what it has, and goes on', async () => {
    const client: ApiClient = await server.open()
    const { outages, device } = await open({ client })
    server.answer = (_request, response) => void response.destroy()
    server.cut()
    await inSteps(clock, () => expect(outages().messages).toEqual([expect.stringMatching(LOST)]))
    expect(outages().unread).toEqual([])
    expect(device().users).toEqual({ 'cam-8120fe-0': 'plant/reader' })
    putReport('node-a', 'plant/next')
    server.answer = undefined
    await inSteps(clock, () => expect(outages().messages).toEqual([]))
    await inSteps(clock, () => expect(device().users).toEqual({ 'cam-8120fe-0': 'plant/next' }))
  })

  it('says of a cluster without akri.js that it is not installed', async () => {
    server.refusal = ({ path }) =>
      path.startsWith(BASE) ? { status: 404, message: 'not found' } : undefined
    const { outages } = await open()
    const { messages, unread } = outages()
    expect(messages[0]).toMatch(
      /the cluster has no configurations\.akri\.sh of v0: akri\.js is not/,
    )
    expect(unread).toEqual(['configuration', 'device'])
  })

  it('only reads, selects the Pods of brokers, and asks for no Secret', async () => {
    await open()
    expect(new Set(server.requests.map(({ method }) => method))).toEqual(new Set(['GET']))
    const paths = new Set(server.requests.map(({ path }) => path))
    const ofNamespace = ['configurations', 'instances'].map((kind) => `namespaces/plant/${kind}`)
    expect([...paths].sort()).toEqual([
      ...['events', 'pods'].map((kind) => `/api/v1/namespaces/plant/${kind}`),
      ...[...ofNamespace, 'nodereports'].map((path) => `${BASE}/${path}`),
    ])
    const pods = new Resource(server.client(), PODS).path('plant')
    for (const { path, query } of server.requests)
      if (path === pods) expect(query.get('labelSelector')).toBe('controller=akri.sh')
  })
})
