import { API_VERSION, parseConfigurationObject } from '@akrijs/api'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { describe as describeObject } from '../commands/describe.js'
import { events } from '../commands/events.js'
import { get } from '../commands/get.js'
import { slots } from '../commands/slots.js'
import { NotInstalledError } from '../errors.js'
import { configurationObject, instanceObject } from '../testing/migrated-objects.js'
import { ClusterObjects } from './cluster-objects.js'

const BASE = '/apis/akri.sh/v0'

const condition = (type: string, status: string, reason: string, message: string) => ({
  ...{ type, status, reason, message },
  lastTransitionTime: '2026-01-02T00:00:00Z',
})

let server: FakeApiServer
let printed: string

/** The objects of a namespace; empty for all. */
const objects = (namespace: string, { signal } = new AbortController()) =>
  new ClusterObjects({
    client: server.client(),
    namespace,
    signal,
    // Changes of a test are not gathered.
    clock: { sleep: async () => {} },
  })

beforeEach(() => {
  server = new FakeApiServer(new ManualClock())
  printed = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text)
    return true
  })
  const slots = { total: 2, claimed: 1 }
  const conditions = [condition('Ready', 'True', 'AllDevicesServed', '1 devices')]
  const status = { observedGeneration: 1, devices: 1, slots, nodes: {}, conditions }
  server.put(`${BASE}/namespaces/plant/configurations/cam`, { ...configurationObject(), status })
  const silent = condition('Ready', 'Unknown', 'AgentSilent', 'no agent of 2 nodes')
  server.put(`${BASE}/namespaces/lab/configurations/silent`, {
    ...configurationObject({}, { namespace: 'lab', name: 'silent' }),
    status: { ...status, conditions: [silent] },
  })
  server.put(
    `${BASE}/namespaces/lab/configurations/wrong`,
    configurationObject({ capacity: 'many' }, { namespace: 'lab', name: 'wrong' }),
  )
  const deviceUsage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-1': 'C:cam-0:node-b' }
  const brokerProperties = { ONVIF_DEVICE_SERVICE_URL: 'http://u:p4ss@10.0.0.5/onvif' }
  server.put(
    `${BASE}/namespaces/plant/instances/cam-8120fe`,
    instanceObject({ deviceUsage, brokerProperties, nodes: ['node-a', 'node-b'] }),
  )
  for (const node of ['node-a', 'node-b'])
    server.put(`${BASE}/nodereports/${node}`, {
      apiVersion: API_VERSION,
      kind: 'NodeReport',
      ...{ agentPod: `agent-${node}`, agentNamespace: 'akri' },
      metadata: { name: node, uid: node, resourceVersion: '1', creationTimestamp: '2026-01-01' },
      counts: { configurations: 1, ready: 1, devices: 1 },
      configurations: {
        'plant/cam': {
          ...{ uid: 'uid-cam', observedGeneration: 1, devices: 1 },
          conditions:
            node === 'node-a'
              ? [condition('HandlerConnected', 'True', 'Connected', 'none@a')]
              : [condition('HandlerConnected', 'False', 'NoHandler', 'no handler is loaded')],
        },
      },
      slots:
        node === 'node-a'
          ? { 'plant/cam-8120fe': [{ slot: 'cam-8120fe-0', pod: 'plant/reader', since: '09:00' }] }
          : { 'plant/cam-8120fe': 'nonsense' },
    })
  server.put('/api/v1/namespaces/plant/events/e1', {
    metadata: { name: 'e1', namespace: 'plant', creationTimestamp: '2026-01-03T00:00:00Z' },
    involvedObject: {
      apiVersion: API_VERSION,
      kind: 'Instance',
      namespace: 'plant',
      name: 'cam-8120fe',
    },
    ...{ type: 'Warning', reason: 'SlotUsedTwice', message: 'http://u:p4ss@x \u001b[31mPods' },
    ...{ count: 3, lastTimestamp: null, eventTime: '2026-01-04T00:00:00Z' },
  })
  server.put('/api/v1/namespaces/plant/events/e2', {
    metadata: { name: 'e2', namespace: 'plant' },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'plant', name: 'cam-8120fe' },
    reason: 'Scheduled',
  })
})

afterEach(() => vi.restoreAllMocks())

const table = { output: 'table', allNamespaces: false, watch: false } as const

describe('in a cluster, akri', () => {
  it.each([
    ['configurations', 'plant', ['cam +none +2 +1 +Ready']],
    [
      'configurations',
      '',
      [
        'cam +plant +none +2 +1 +Ready',
        'silent +lab +none +2 +1 +AgentSilent: no agent of 2 nodes',
        'wrong +lab +none +many +0 +InvalidConfiguration: spec.capacity: ',
      ],
    ],
    ['instances', 'plant', ['cam-8120fe +cam +true +node-a,node-b +2/2 +http://u:[*]+@10.0.0.5']],
    ['nodes', 'plant', ['node-a +1 +1 +1 +akri/agent-node-a', 'node-b +1 +1 +1 +akri/agent-node']],
    ['handlers', 'plant', ['none +1 +1/2 +node-b: no handler is loaded']],
  ])('lists %s of the namespace "%s"', async (kind, namespace, rows) => {
    const options = { ...table, allNamespaces: namespace === '' }
    await get(kind, undefined, options, async () => objects(namespace))
    const lines = printed.trimEnd().split('\n').slice(1)
    expect(lines).toEqual(rows.map((row) => expect.stringMatching(row)))
    expect(printed).not.toContain('p4ss')
  })

  it('gives objects that a program can read', async () => {
    await get('configurations', 'cam', { ...table, output: 'json' }, async () => objects('plant'))
    expect(parseConfigurationObject(JSON.parse(printed))).toMatchObject({ ok: true })
    printed = ''
    await get('akrii', undefined, { ...table, output: 'name' }, async () => objects('plant'))
    expect(printed).toBe('instance.akri.sh/cam-8120fe\n')
  })

  it('shows who uses which slot, as the nodes report it', async () => {
    await slots(undefined, objects('plant'))
    expect(printed.split('\n')).toEqual([
      expect.stringMatching(/^SLOT +NODE +USED BY +SINCE$/),
      expect.stringMatching(/^cam-8120fe-0 +node-a +plant\/reader +09:00$/),
      expect.stringMatching(/^cam-8120fe-1 +node-b +not known yet$/),
      '',
      '2 of 2 slots are used',
      '',
    ])
    await expect(slots('other', objects('plant'))).rejects.toThrow('there is no instance other')
  })

  it('shows Events of objects of akri.js, without secrets and control characters', async () => {
    await events(undefined, objects('plant'))
    const [, line, ...others] = printed.trimEnd().split('\n')
    expect(line).toMatch(
      /^2026-01-04T00:00:00Z +Warning +SlotUsedTwice +Instance plant\/cam-8120fe/,
    )
    for (const hidden of ['p4ss', '\u001b']) expect(printed).not.toContain(hidden)
    expect(others).toEqual([])
  })

  it.each([
    ['configuration', 'cam', ['Slots: +1 of 2 claimed', 'AllDevicesServed']],
    ['instance', 'cam-8120fe', ['cam-8120fe-0 +node-a +plant/reader', 'SlotUsedTwice']],
    ['node', 'node-b', ['Agent: +akri/agent-node-b', 'plant/cam +1']],
    ['handler', 'none', ['node-a +connected +none@a', 'node-b +not connected +no handler']],
  ])('describes a %s', async (kind, name, parts) => {
    await describeObject(kind, name, async () => objects('plant'))
    for (const part of parts) expect(printed).toMatch(new RegExp(part))
    await expect(describeObject(kind, 'other', async () => objects('plant'))).rejects.toThrow(
      `there is no ${kind} other`,
    )
  })

  it.each([
    ['configurations', 'plant', /^cam +none +2 +1 +Ready/],
    ['instances', 'plant', /^cam-8120fe +cam +true /],
    ['handlers', 'plant', /^none +1 +1\/2 /],
    ['nodes', 'plant', /^node-a +1 .*\nnode-b +1 /],
  ])(
    'watches %s: prints each row that changes, and the end of an object',
    async (kind, from, row) => {
      const stop = new AbortController()
      const watching = get(kind, undefined, { ...table, watch: true }, async () =>
        objects(from, stop),
      )
      const newText = async (pattern: RegExp, change: () => unknown = () => {}) => {
        printed = ''
        await change()
        await vi.waitFor(() => expect(printed).toMatch(pattern))
      }
      await vi.waitFor(() => expect(printed.slice(printed.indexOf('\n') + 1)).toMatch(row))
      const instance = `${BASE}/namespaces/plant/instances/cam-8120fe`
      const configuration = `${BASE}/namespaces/plant/configurations/cam`
      if (kind === 'instances') {
        await newText(/^cam-8120fe +cam +true +node-c +0\/0/, () =>
          server.put(instance, instanceObject({ nodes: ['node-c'] })),
        )
        await newText(/^cam-8120fe +deleted\n$/, () => server.remove(instance))
      } else if (kind === 'configurations') {
        // Another namespace, and a change that no column shows.
        server.put(`${BASE}/namespaces/lab/configurations/x`, configurationObject())
        await newText(/^cam +none +5 /, () =>
          server.put(configuration, configurationObject({ capacity: 5 })),
        )
        expect(printed.split('\n')).toHaveLength(2)
      } else {
        await newText(kind === 'nodes' ? /^node-b +deleted\n$/ : /^none +1 +1\/1 +Connected/, () =>
          server.remove(`${BASE}/nodereports/node-b`),
        )
      }
      stop.abort()
      await expect(watching).rejects.toThrow('aborted')
    },
  )

  it('lists again if the server has forgotten the version of a watch', async () => {
    const stop = new AbortController()
    const seen = objects('plant', stop)
    await seen.instances()
    let watches = 0
    server.refusal = ({ query }) => {
      if (!query.has('watch')) return undefined
      watches++
      return { status: 410, reason: 'Expired', message: 'too old' }
    }
    await seen.changed('instances')
    expect(watches).toBe(1)
  })

  it('refuses --watch with a form that is no table', async () => {
    const wanted = get('instances', undefined, { ...table, watch: true, output: 'json' }, () =>
      expect.fail('the cluster was opened'),
    )
    await expect(wanted).rejects.toThrow('--watch prints rows')
  })

  it('says that akri.js is not installed where its kinds are not known', async () => {
    server.refusal = () => ({ status: 404, reason: 'NotFound', message: 'not found' })
    const wanted = get('instances', undefined, table, async () => objects(''))
    await expect(wanted).rejects.toThrow(NotInstalledError)
    await expect(wanted).rejects.toThrow('the cluster has no instances.akri.sh of v0')
  })
})
