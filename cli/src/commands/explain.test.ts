import { API_VERSION } from '@akrijs/api'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ClusterObjects } from '../objects/cluster-objects.js'
import { configurationObject, instanceObject } from '../testing/migrated-objects.js'
import { explain } from './explain.js'

// A namespace plant with a Configuration cam of two nodes, and one camera with two slots.

const BASE = '/apis/akri.sh/v0'

type Condition = readonly [type: string, status: string, reason: string, message?: string]
const conditions = (...found: Condition[]) =>
  found.map(([type, status, reason, message = '']) => ({ type, status, reason, message }))
const READY: Condition[] = [
  ['HandlerConnected', 'True', 'Connected', 'onvif@a'],
  ['Discovering', 'True', 'Listed'],
  ['Ready', 'True', 'AllDevicesServed', '1 devices'],
]

let server: FakeApiServer
let printed: string

beforeEach(() => {
  server = new FakeApiServer(new ManualClock())
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text)
    return true
  })
  server.put(`${BASE}/namespaces/plant/configurations/cam`, configurationObject())
  const deviceUsage = { 'cam-8120fe-0': 'C:cam-0:node-a', 'cam-8120fe-1': '' }
  server.put(`${BASE}/namespaces/plant/instances/cam-8120fe`, instanceObject({ deviceUsage }))
  for (const name of ['node-a', 'node-b']) {
    putNode(name, '2')
    putAgent(name, 'True')
    putReport(name, 1, READY)
  }
  putPod('reader', { phase: 'Running', node: 'node-a' })
})

afterEach(() => vi.restoreAllMocks())

function putNode(name: string, offered: string): void {
  server.put(`/api/v1/nodes/${name}`, {
    metadata: { name },
    status: {
      allocatable: { cpu: '2', 'akri.sh/cam': offered },
      conditions: conditions(['Ready', 'True', 'KubeletReady']),
    },
  })
}

function putAgent(node: string, ready: string): void {
  server.put(`/api/v1/namespaces/akri/pods/agent-${node}`, {
    metadata: {
      ...{ name: `agent-${node}`, namespace: 'akri' },
      labels: { 'app.kubernetes.io/name': 'akri-agent' },
    },
    spec: { nodeName: node },
    status: {
      phase: ready === 'True' ? 'Running' : 'Pending',
      conditions: conditions(['Ready', ready, '']),
      containerStatuses: [{ state: { waiting: { reason: 'ImagePullBackOff', message: 'no' } } }],
    },
  })
}

function putReport(name: string, devices: number, found: readonly Condition[]): void {
  const status = { uid: 'uid-cam', observedGeneration: 1, devices }
  server.put(`${BASE}/nodereports/${name}`, {
    apiVersion: API_VERSION,
    kind: 'NodeReport',
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01' },
    counts: { configurations: 1, ready: 1, devices },
    configurations: { 'plant/cam': { ...status, conditions: conditions(...found) } },
    slots: { 'plant/cam-8120fe': [{ slot: 'cam-8120fe-0', pod: 'plant/reader' }] },
  })
}

function putPod(
  name: string,
  {
    phase = 'Pending',
    node = '',
    limits = { 'akri.sh/cam': '1' } as object,
    status = {} as object,
  } = {},
): void {
  server.put(`/api/v1/namespaces/plant/pods/${name}`, {
    metadata: { name, namespace: 'plant' },
    spec: { nodeName: node, containers: [{ resources: { limits } }] },
    status: { phase, ...status },
  })
}

const UNSCHEDULABLE = {
  conditions: conditions(['PodScheduled', 'False', 'Unschedulable', '0/2 nodes are available']),
}

async function explained(kind: string, name: string): Promise<readonly string[]> {
  printed = ''
  const { signal } = new AbortController()
  await explain(
    kind,
    name,
    async () => new ClusterObjects({ client: server.client(), namespace: 'plant', signal }),
  )
  return printed.trimEnd().split('\n')
}

const nextStep = async (kind: string, name: string) => (await explained(kind, name)).at(-1)

describe('akri explain configuration', () => {
  it('shows each node, and that there is nothing to do', async () => {
    const lines = await explained('akric', 'cam')
    expect(lines).toContainEqual(expect.stringMatching(/^node-b +running +yes +yes +yes +1 +2$/))
    expect(lines.at(-1)).toBe('Next step: none: the devices are offered')
  })

  it.each<[string, () => void, RegExp]>([
    [
      'no node has an agent',
      () => {
        for (const node of ['node-a', 'node-b']) {
          server.remove(`/api/v1/namespaces/akri/pods/agent-${node}`)
          server.remove(`${BASE}/nodereports/${node}`)
        }
      },
      /no agent runs: install akri\.js/,
    ],
    [
      'an agent does not start',
      () => putAgent('node-b', 'False'),
      /kubectl -n akri describe pod agent-node-b$/,
    ],
    [
      'no node has the handler',
      () => {
        for (const node of ['node-a', 'node-b'])
          putReport(node, 0, [['HandlerConnected', 'False', 'NoHandler', 'no handler none']])
      },
      /start the handler none/,
    ],
    [
      'a node has a problem',
      () => putReport('node-b', 0, [['Ready', 'False', 'SecretNotReadable', 'no Secret lab']]),
      /the cause that node-b names above/,
    ],
    ['a kubelet offers nothing', () => putNode('node-b', '0'), /akri slots cam; if not/],
    ['a Pod waits', () => putPod('waits', { status: UNSCHEDULABLE }), /akri explain pod waits$/],
    [
      'nothing is found',
      () => {
        for (const node of ['node-a', 'node-b'])
          putReport(node, 0, [['Ready', 'True', 'NoDevices', '3 not offered']])
      },
      /akri discover none with these details/,
    ],
    [
      'the spec is wrong',
      () =>
        server.put(
          `${BASE}/namespaces/plant/configurations/cam`,
          configurationObject({ capacity: 'many' }),
        ),
      /kubectl -n plant edit akric cam$/,
    ],
  ])('says what to do if %s', async (_, change, step) => {
    change()
    expect(await nextStep('configuration', 'cam')).toMatch(step)
  })

  it('quotes what a node reports, and why an agent does not run', async () => {
    putReport('node-a', 0, [['Ready', 'True', 'NoDevices', '0 devices; 3 not offered']])
    putAgent('node-b', 'False')
    const lines = await explained('configuration', 'cam')
    expect(lines).toContainEqual(expect.stringMatching(/^node-a +0 devices; 3 not offered$/))
    expect(lines).toContainEqual(
      expect.stringMatching(
        /^node-b +the agent akri\/agent-node-b is Pending: ImagePullBackOff: no$/,
      ),
    )
  })
})

describe('akri explain pod', () => {
  it('shows what it asks for, who has the slots, and what the cluster says', async () => {
    putPod('waits', { status: UNSCHEDULABLE })
    const lines = await explained('pod', 'waits')
    expect(lines[0]).toBe(
      'Pod plant/waits: Pending on no node yet: Unschedulable: 0/2 nodes are available',
    )
    expect(lines).toContain('It asks for 1 of akri.sh/cam:')
    expect(lines).toContainEqual(expect.stringMatching(/^node-a +2 +1$/))
    expect(lines).toContainEqual(expect.stringMatching(/^cam-8120fe-0 +node-a +plant\/reader$/))
    expect(lines.at(-1)).toBe('Next step: devices are free: the reason is in the first line')
  })

  it.each<[string, () => void, RegExp]>([
    ['it runs', () => putPod('p', { phase: 'Running', node: 'node-a' }), /none: it runs/],
    [
      'it asks for no device',
      () => putPod('p', { limits: {} }),
      /limits, \{ akri\.sh\/cam: "1" \}/,
    ],
    [
      'it was refused',
      () => putPod('p', { phase: 'Failed', status: { reason: 'UnexpectedAdmissionError' } }),
      /delete it/,
    ],
    [
      'nothing has the name',
      () => putPod('p', { limits: { 'akri.sh/cma': '1' } }),
      /no Instance has the name cma; is cam meant\?/,
    ],
    [
      'no node offers it',
      () => putPod('p', { limits: { 'akri.sh/cam-8120fe': '1' } }),
      /akri explain configuration cam: no node offers it/,
    ],
    [
      'it asks for too many',
      () => putPod('p', { limits: { 'akri.sh/cam': '3' } }),
      /ask for at most 2: no node offers 3 of akri\.sh\/cam$/,
    ],
    [
      'all is in use',
      () => {
        putPod('writer', { phase: 'Running', node: 'node-b' })
        putPod('p', { limits: { 'akri.sh/cam': '2' } })
      },
      /all is in use: end a Pod that has it, or raise the capacity of cam/,
    ],
  ])('says what to do if %s', async (_, change, step) => {
    change()
    expect(await nextStep('pod', 'p')).toMatch(step)
  })

  it('sees the Pods of its namespace where it may not list others', async () => {
    server.refusal = ({ path }) =>
      /^\/api\/v1\/pods$|^\/apis\/akri.sh\/v0\/(configurations|instances)$/.test(path)
        ? { status: 403, message: 'forbidden' }
        : undefined
    putPod('waits', { status: UNSCHEDULABLE })
    expect(await explained('pod', 'waits')).toContainEqual(expect.stringMatching(/^node-a +2 +1$/))
  })
})

it.each([
  ['configuration', 'other', 'there is no configuration other in namespace plant'],
  ['pod', 'other', 'there is no pod other in namespace plant'],
])('akri explain %s %s says what is wrong', async (kind, name, message) => {
  await expect(explained(kind, name)).rejects.toThrow(message)
})
