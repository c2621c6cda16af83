import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { API_VERSION } from '@akrijs/api'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { issueAuthority } from '../../../webhook/src/certificates/x509.js'
import { ClusterProblemsError } from '../errors.js'
import { ClusterObjects } from '../objects/cluster-objects.js'
import { configurationObject, instanceObject } from '../testing/migrated-objects.js'
import { doctor } from './doctor.js'

// A cluster with two nodes, an agent on each, a controller and a webhook, and one camera.

const BASE = '/apis/akri.sh/v0'
const REVIEWS = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
const WEBHOOK = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/akri'
const CONFIGURATION = `${BASE}/namespaces/plant/configurations/cam`
const AGENT = '/api/v1/namespaces/akri/pods/akri-agent-node-a'
const ENFORCE = 'pod-security.kubernetes.io/enforce'
const DAY_MS = 24 * 3_600_000
const NOW = Date.parse('2026-06-01T00:00:00Z')
const EXPIRES_MS = NOW + 30 * DAY_MS
const { cert: CERTIFICATE } = await issueAuthority('akri', {
  notBefore: new Date(NOW - DAY_MS),
  notAfter: new Date(EXPIRES_MS),
})

let server: FakeApiServer
let printed: string

beforeEach(() => {
  server = new FakeApiServer(new ManualClock())
  printed = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text)
    return true
  })
  server.documents.set('/version', { gitVersion: 'v1.36.1+k3s1' })
  putResources('configurations', 'configurations/status', 'instances', 'instances/status')
  server.documents.set(REVIEWS, { status: { allowed: true } })
  server.put('/apis/apps/v1/namespaces/akri/daemonsets/akri-agent', {
    metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
  })
  putNamespace({ [ENFORCE]: 'privileged' })
  putWebhook(CERTIFICATE)
  server.put(CONFIGURATION, configurationObject())
  server.put(`${BASE}/namespaces/plant/instances/cam-8120fe`, instanceObject())
  for (const node of ['node-a', 'node-b']) {
    putNode(node, { 'akri.sh/cam': '2', 'akri.sh/gone': '0' })
    putLease(node, 0)
    putPod('akri-agent', node, 'True')
    putReport(node)
  }
  putPod('akri-controller', 'node-a', 'True')
  putPod('akri-webhook', 'node-a', 'True')
  putPod('akri-webhook', 'evicted', 'False', { phase: 'Failed' })
})

afterEach(async () => {
  vi.restoreAllMocks()
  await server.close()
})

function putResources(...names: readonly string[]): void {
  const resources = [...names, 'nodereports'].map((name) => ({ name }))
  server.documents.set(BASE, { resources })
}

function putNamespace(labels: object): void {
  server.put('/api/v1/namespaces/akri', { metadata: { labels } })
}

function putWebhook(certificate: string): void {
  const caBundle = Buffer.from(certificate).toString('base64')
  const webhooks = [{ name: 'akri.svc', rules: [{ apiGroups: ['akri.sh'] }] }].map((each) => ({
    ...each,
    clientConfig: { caBundle },
  }))
  server.put(WEBHOOK, { webhooks })
}

function putNode(name: string, allocatable: object): void {
  const conditions = [{ type: 'Ready', status: 'True' }]
  const addresses = [{ type: 'InternalIP', address: '10.1.2.3' }]
  server.put(`/api/v1/nodes/${name}`, { status: { allocatable, conditions, addresses } })
}

function putLease(node: string, aheadMs: number): void {
  server.put(`/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node}`, {
    spec: { renewTime: new Date(NOW + aheadMs).toISOString() },
  })
}

function putPod(program: string, node: string, ready: string, more: object = {}): void {
  server.put(`/api/v1/namespaces/akri/pods/${program}-${node}`, {
    metadata: { labels: { 'app.kubernetes.io/name': program } },
    spec: { nodeName: node, serviceAccountName: `${program}-sa` },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready }], ...more },
  })
}

function putReport(node: string, conditions: readonly object[] = [connected('True', 'none@a')]) {
  server.put(`${BASE}/nodereports/${node}`, {
    apiVersion: API_VERSION,
    kind: 'NodeReport',
    metadata: { creationTimestamp: '2026-01-01' },
    ...{ agentPod: `akri-agent-${node}`, agentNamespace: 'akri' },
    counts: { configurations: 1, ready: 1, devices: 1 },
    configurations: {
      'plant/cam': { uid: 'uid-cam', observedGeneration: 1, devices: 1, conditions },
    },
  })
}

function connected(status: string, message: string, reason = 'Connected') {
  return { type: 'HandlerConnected', status, reason, message }
}

async function examined(bundle?: string): Promise<unknown> {
  const { signal } = new AbortController()
  const objects = new ClusterObjects({ client: await server.open(), namespace: 'x', signal })
  return doctor({ bundle }, objects, () => NOW).catch((error: unknown) => error)
}

describe('akri doctor', () => {
  it('says of each part of a cluster in order that it is so', async () => {
    expect(await examined()).toBeUndefined()
    expect(printed.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^STATE +PART +FINDING$/),
      expect.stringMatching(/^ok +Kubernetes +v1.36.1\+k3s1$/),
      expect.stringMatching(/^ok +custom resources +akri.sh\/v0$/),
      expect.stringMatching(/^ok +programs +akri-agent: 2 of 2 Pods are ready$/),
      expect.stringMatching(/^ok +programs +akri-controller: 1 of 1 Pods are ready$/),
      expect.stringMatching(/^ok +programs +akri-webhook: 1 of 1 Pods are ready$/),
      expect.stringMatching(/^ok +Pod security +namespace akri: .*=privileged$/),
      expect.stringMatching(/^ok +rights +3 accounts have their rights$/),
      expect.stringMatching(/^ok +webhook +the authority of akri.svc is valid until /),
      expect.stringMatching(/^ok +kubelets +2 of 2 nodes report$/),
      expect.stringMatching(/^ok +clocks +within a minute on 2 nodes$/),
      expect.stringMatching(/^ok +handlers +1 of 1 are connected$/),
      expect.stringMatching(/^ok +Akri 0.13 +nothing is left of it$/),
      expect.stringMatching(/^ok +resource names +each name that is offered has its object$/),
    ])
  })

  it.each<[string, () => unknown, string, string]>([
    [
      'an old Kubernetes',
      () => server.documents.set('/version', { gitVersion: 'v1.20.4' }),
      'problem +Kubernetes +v1.20.4 is older than v1.26',
      'update Kubernetes',
    ],
    [
      'custom resources of Akri 0.13',
      () => putResources('configurations', 'instances'),
      'problem +custom resources +configurations/status, instances/status of .* are missing',
      'update the custom resources',
    ],
    [
      'an agent that is not ready',
      () =>
        putPod('akri-agent', 'node-a', 'False', {
          containerStatuses: [{ state: { waiting: { reason: 'ErrImagePull', message: 'none' } } }],
        }),
      'problem +programs +akri-agent: 1 of 2 .*; akri/akri-agent-node-a: ErrImagePull: none',
      'kubectl -n akri describe pod akri-agent-node-a',
    ],
    [
      'a controller that is not there',
      () => server.remove('/api/v1/namespaces/akri/pods/akri-controller-node-a'),
      'problem +programs +akri-controller: no Pod',
      'install akri.js',
    ],
    [
      'a namespace that refuses the agents',
      () => putNamespace({ [ENFORCE]: 'baseline' }),
      'problem +Pod security +namespace akri: .*=baseline',
      `kubectl label namespace akri --overwrite ${ENFORCE}=privileged`,
    ],
    [
      'accounts without rights',
      () => server.documents.set(REVIEWS, { status: { allowed: false } }),
      'problem +rights +akri-agent-sa of akri may not get configurations \\(and \\d+ more\\)',
      'apply the roles again',
    ],
    [
      'a webhook without an authority',
      () => putWebhook(''),
      'problem +webhook +akri.svc has no caBundle',
      'docs/webhook.md#certificates',
    ],
    [
      'a caBundle of another form',
      () => putWebhook('-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----'),
      'problem +webhook +caBundle of akri.svc is no certificate',
      'docs/webhook.md#certificates',
    ],
    [
      'a device plugin that a kubelet refuses',
      () =>
        putReport('node-b', [{ ...connected('False', 'refused'), reason: 'RegistrationRefused' }]),
      'problem +kubelets +node-b: refused',
      'compare the directory',
    ],
    [
      'an agent without a report',
      () => server.remove(`${BASE}/nodereports/node-b`),
      'problem +kubelets +node-b: its agent akri/akri-agent-node-b writes no report',
      'read the log of the agent',
    ],
    [
      'a clock that is behind',
      () => putLease('node-b', -90_000),
      'warning +clocks +the clock of node-b is 90 s behind',
      'run an NTP client there',
    ],
    [
      'a handler that no node has',
      () => {
        for (const node of ['node-a', 'node-b'])
          putReport(node, [connected('False', 'no handler none is loaded', 'NoHandler')])
      },
      'problem +handlers +no handler none is loaded',
      'akri get handlers',
    ],
    [
      'a finalizer of Akri 0.13',
      () => {
        const managedFields = [{ manager: 'node-z-fin', operation: 'Apply' }]
        const metadata = { finalizers: ['node-z'], managedFields }
        server.put(CONFIGURATION, configurationObject({}, metadata))
      },
      'warning +Akri 0.13 +Configuration plant/cam: remove the finalizers node-z',
      'akri migrate check',
    ],
    [
      'a resource that is offered without a device',
      () => putNode('node-b', { 'akri.sh/gone': '3' }),
      'problem +resource names +node-b still offers 3 of akri.sh/gone, without a device',
      'docs/devices.md#names-of-resources',
    ],
  ])('finds %s, and says what to do', async (_what, change, finding, remedy) => {
    change()
    const end = await examined()
    const lines = printed.trimEnd().split('\n')
    const at = lines.findIndex((line) => new RegExp(`^${finding}`).test(line))
    expect(at, printed).toBeGreaterThan(0)
    expect(lines[at + 1]?.trim()).toContain(remedy)
    const isProblem = finding.startsWith('problem')
    expect(end instanceof ClusterProblemsError, String(end)).toBe(isProblem)
    expect(lines.filter((line) => /^(problem|warning)/.test(line))).toHaveLength(1)
  })

  it.each([
    ['expired', EXPIRES_MS + 1, 'problem', 'expired at'],
    ['about to expire', EXPIRES_MS - DAY_MS, 'warning', 'expires at'],
  ])('finds an authority that is %s', async (_what, now, level, text) => {
    const { signal } = new AbortController()
    const objects = new ClusterObjects({ client: await server.open(), namespace: '', signal })
    await doctor({ bundle: undefined }, objects, () => now).catch(() => {})
    expect(printed).toMatch(new RegExp(`${level} +webhook +the authority of akri.svc ${text}`))
  })

  it('goes on where the user may not read, and says so', async () => {
    server.refusal = ({ path: at }) =>
      at.startsWith('/api/v1/nodes') ? { status: 403, message: 'not yours' } : undefined
    expect(await examined()).toBeUndefined()
    expect(printed).toMatch(/unknown +kubelets +GET \/api\/v1\/nodes.*not yours/)
    expect(printed).toMatch(/ok +programs/)
  })

  it('says that akri.js is not installed', async () => {
    server = new FakeApiServer(new ManualClock())
    server.documents.set('/version', { gitVersion: 'v1.36.1' })
    server.refusal = ({ path: at }) =>
      at.includes('akri.sh') ? { status: 404, message: 'no such kind' } : undefined
    expect(await examined()).toBeInstanceOf(ClusterProblemsError)
    expect(printed).toMatch(/problem +custom resources +the cluster has no akri.sh\/v0/)
    expect(printed).toContain('install akri.js: docs/helm.md')
  })

  describe('with --bundle', () => {
    let directory: string
    beforeEach(() => {
      directory = mkdtempSync(path.join(os.tmpdir(), 'akri-t-'))
    })
    afterEach(() => rmSync(directory, { recursive: true }))

    it('writes what a report of a bug needs, for its user only, without secrets', async () => {
      const details = 'url: http://u:p4ss@10.0.0.5/'
      const discoveryHandler = { name: 'none', discoveryDetails: details }
      server.put(CONFIGURATION, configurationObject({ discoveryHandler }))
      server.documents.set(`${AGENT}/log?tailLines=500`, 'started\nat http://u:p4ss@10.0.0.5/')
      const file = path.join(directory, 'bundle.json')
      await examined(file)
      const text = readFileSync(file, 'utf8')
      expect(statSync(file).mode & 0o777).toBe(0o600)
      expect(text).not.toMatch(/p4ss|10\.1\.2\.3/)
      const bundle = JSON.parse(text)
      expect(Object.keys(bundle)).toEqual([
        ...['findings', 'configurations', 'instances', 'nodeReports', 'events', 'nodes'],
        ...['programs', 'logs'],
      ])
      expect(bundle.logs['akri/akri-agent-node-a'][0]).toBe('started')
      expect(bundle.logs['akri/akri-agent-node-b']).toContain('404')
      expect(bundle.findings).toContainEqual({
        part: 'Kubernetes',
        level: 'ok',
        text: 'v1.36.1+k3s1',
      })
      expect(bundle.nodes[0].allocatable).toEqual({ 'akri.sh/cam': '2', 'akri.sh/gone': '0' })
    })

    it('replaces no file', async () => {
      const file = path.join(directory, 'bundle.json')
      await examined(file)
      expect(String(await examined(file))).toContain('exists: give --bundle the name of a new file')
    })
  })
})
