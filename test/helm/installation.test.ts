import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { valueAt } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import {
  CHART,
  customResources,
  type KubernetesObject,
  missingForChart,
  render,
  type Values,
} from './chart.js'
import { kustomize } from './kustomize.js'

// The chart and deploy/manifests install the same objects, down to the last field. The rules of the
// webhook are the exception: in a release the webhook itself writes them.

const MANIFESTS = path.join(CHART, '../../manifests')
const HELMS_LABELS = [
  'app.kubernetes.io/instance',
  'app.kubernetes.io/managed-by',
  'app.kubernetes.io/version',
  'helm.sh/chart',
] as const

const nameOf = ({ kind, metadata }: KubernetesObject) =>
  `${kind} ${metadata.namespace ?? ''}/${metadata.name}`

/** The objects of the release itself; hooks exist only before an uninstall. */
const installed = async (values: Values, namespace?: string) =>
  (await render(values, namespace)).filter(({ metadata }) => !isHook(metadata))
const isHook = ({ annotations = {} }: KubernetesObject['metadata']) =>
  annotations['helm.sh/hook'] !== undefined

/** By name, because Helm chooses the order. Helm leaves the namespace to the user. */
function byName(objects: readonly KubernetesObject[]): Record<string, KubernetesObject> {
  const others = objects.filter(({ kind }) => kind !== 'Namespace')
  const named = Object.fromEntries(others.map((object) => [nameOf(object), object]))
  expect(Object.keys(named)).toHaveLength(others.length)
  return named
}

/** Without the labels that every object of Helm must have, and no other object. */
function withoutHelm(object: KubernetesObject): KubernetesObject {
  const labels = Object.entries(object.metadata.labels ?? {})
  const isHelms = (label: string) => HELMS_LABELS.some((helmLabel) => helmLabel === label)
  expect(
    labels
      .map(([label]) => label)
      .filter(isHelms)
      .sort(),
    nameOf(object),
  ).toEqual(HELMS_LABELS)
  expect(JSON.stringify(object.spec ?? {})).not.toContain('helm.sh')
  return {
    ...object,
    metadata: {
      ...object.metadata,
      labels: Object.fromEntries(labels.filter(([label]) => !isHelms(label))),
    },
  }
}

function withoutRules(object: KubernetesObject): KubernetesObject {
  if (object.kind !== 'ValidatingWebhookConfiguration') return object
  const webhooks: readonly object[] = Reflect.get(object, 'webhooks')
  const rest = webhooks.map((webhook) => ({ ...webhook, rules: undefined }))
  return JSON.parse(JSON.stringify({ ...object, webhooks: rest }))
}

const bothHandlers = {
  onvif: { discovery: { enabled: true } },
  opcua: { discovery: { enabled: true } },
}
const networkHandlers = {
  ...bothHandlers,
  mdns: { discovery: { enabled: true } },
  ssdp: { discovery: { enabled: true } },
  modbus: { discovery: { enabled: true } },
  mqtt: { discovery: { enabled: true } },
  snmp: { discovery: { enabled: true } },
}
const webhookOff = { webhookConfiguration: { enabled: false } }
const installations = [
  ['deploy/manifests', ['.'], webhookOff],
  ['deploy/manifests and its webhook', ['.', 'webhook'], {}],
  [
    'the agent alone',
    ['../../api/crds', 'agent'],
    { ...webhookOff, controller: { enabled: false } },
  ],
  ['host-network', ['host-network'], { ...webhookOff, agent: { hostNetwork: true } }],
  [
    'node-restriction',
    ['.', 'node-restriction'],
    { ...webhookOff, agent: { nodeRestriction: true } },
  ],
  ['all-handlers', ['all-handlers'], { ...webhookOff, agent: { full: true } }],
  [
    'handlers/onvif',
    ['.', 'handlers/onvif'],
    { ...webhookOff, onvif: { discovery: { enabled: true } } },
  ],
  [
    'handlers/opcua',
    ['.', 'handlers/opcua'],
    { ...webhookOff, opcua: { discovery: { enabled: true } } },
  ],
  [
    'handlers/opcua-host-network',
    ['.', 'handlers/opcua-host-network'],
    { ...webhookOff, opcua: { discovery: { enabled: true, hostNetwork: true } } },
  ],
  ['handlers/network', ['.', 'handlers/network'], { ...webhookOff, ...networkHandlers }],
  [
    'both handlers apart',
    ['.', 'handlers/onvif', 'handlers/opcua'],
    { ...webhookOff, ...bothHandlers, discovery: { oneProcess: false } },
  ],
] as const

it.each(installations)('%s: no foreign answer on a port of the node ends a Pod', (_, folders) => {
  const pods = folders
    .flatMap((folder) => kustomize(path.join(MANIFESTS, folder)))
    .flatMap((object) => valueAt(object, 'spec', 'template', 'spec') ?? [])
  expect(pods.length).toBeGreaterThan(0)
  for (const pod of pods) {
    const isOnNode = valueAt(pod, 'hostNetwork') === true
    expect(valueAt(pod, 'containers')).toEqual([
      isOnNode
        ? expect.not.objectContaining({ livenessProbe: expect.anything() })
        : expect.objectContaining({ livenessProbe: expect.anything() }),
    ])
  }
})

describeUnless(missingForChart, 'the chart', () => {
  it('passes the checks of helm lint', async () => {
    const { status, stdout } = spawnSync('helm', ['lint', '--strict', CHART], { encoding: 'utf8' })
    expect([status, stdout]).toEqual([0, expect.stringContaining('0 chart(s) failed')])
  })

  it.each(installations)('H1 installs %s', async (_name, folders, values) => {
    const manifests = folders.flatMap((folder) => kustomize(path.join(MANIFESTS, folder)))
    const wanted = byName(manifests.map(withoutRules))
    const found = byName([...(await installed(values)).map(withoutHelm), ...customResources()])
    expect(found).toEqual(wanted)
  })

  it('installs into any namespace, also if its name looks like a number', async () => {
    const everything = {
      agent: { full: true, nodeRestriction: true },
      onvif: { discovery: { enabled: true }, configuration: { enabled: true } },
      opcua: { discovery: { enabled: true }, configuration: { enabled: true } },
    }
    const [here, there] = await Promise.all([render(everything), render(everything, '1234')])
    // The places that name the namespace: metadata, subjects of bindings, the Service of the
    // webhook, the account of the agent in policies.
    const moved = JSON.stringify(here)
      .replaceAll(/"namespace":"akri"/g, '"namespace":"1234"')
      .replaceAll('.akri.svc', '.1234.svc')
      .replaceAll(':akri:akri-agent-sa', ':1234:akri-agent-sa')
    expect(byName(there)).toEqual(byName(JSON.parse(moved) as KubernetesObject[]))
  })

  it('deletes the Configurations before an uninstall, with few rights', async () => {
    const hooks = (await render()).filter(({ metadata }) => isHook(metadata))
    expect(hooks.map((object) => nameOf(object)).sort()).toEqual([
      'ClusterRole /akri-helm-cleanup-hook-role',
      'ClusterRoleBinding /akri-helm-cleanup-hook-binding',
      'Job akri/akri-cleanup',
      'ServiceAccount akri/akri-helm-cleanup-hook-sa',
    ])
    for (const { metadata } of hooks)
      expect(metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-delete' })
    const [role] = hooks.filter(({ kind }) => kind === 'ClusterRole')
    expect(role).toMatchObject({
      rules: [{ apiGroups: ['akri.sh'], resources: ['configurations'], verbs: ['list', 'delete'] }],
    })
    // An annotation keeps a sidecar out, which would never end.
    const podAnnotations = { 'sidecar.istio.io/inject': false }
    const job = (await render({ controller: { podAnnotations } })).find(
      ({ kind }) => kind === 'Job',
    )
    expect(job?.spec).toMatchObject({
      template: { metadata: { annotations: { 'sidecar.istio.io/inject': 'false' } } },
    })
    const off = { enabled: false }
    for (const values of [
      { cleanupHook: off },
      // The Configurations of other releases stay.
      { agent: off, controller: off },
      { rbac: off },
    ])
      expect((await render(values)).filter(({ metadata }) => isHook(metadata))).toEqual([])
  })
})
