import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { access } from '../support/nodes.js'

const COMPONENTS = [
  { kind: 'DaemonSet', name: 'akri-agent', object: 'akri-agent-daemonset' },
  { kind: 'Deployment', name: 'akri-controller', object: 'akri-controller-deployment' },
] as const

/**
 * Writes a chart that installs objects of the kinds, names and labels that a release of the
 * existing chart has. Its Pods do nothing, and its clean-up hook fails: Helm must not run it.
 */
export async function writeStandIn(directory: string): Promise<void> {
  const templates = path.join(directory, 'templates')
  await mkdir(templates, { recursive: true })
  const version = '0.13.26'
  const chart = { apiVersion: 'v2', name: 'akri', version, appVersion: version }
  await writeFile(path.join(directory, 'Chart.yaml'), JSON.stringify(chart))
  const values = {
    debugEcho: { configuration: { enabled: false, shared: true } },
    agent: { allowDebugEcho: false },
  }
  await writeFile(path.join(directory, 'values.yaml'), JSON.stringify(values))
  await writeFile(
    path.join(templates, 'programs.yaml'),
    [...COMPONENTS.flatMap(componentObjects), ...webhookObjects(), hook]
      .map((object) => JSON.stringify(object))
      .join('\n---\n'),
  )
  await writeFile(
    path.join(templates, 'configuration.yaml'),
    ['{{ if .Values.debugEcho.configuration.enabled }}', JSON.stringify(configuration), '{{ end }}']
      .map((line) => `${line}\n`)
      .join(''),
  )
}

function labelsOf(name: string, component: string) {
  return {
    'helm.sh/chart': '{{ .Chart.Name }}-{{ .Chart.Version }}',
    'app.kubernetes.io/part-of': '{{ .Chart.Name }}',
    'app.kubernetes.io/instance': '{{ .Release.Name }}',
    'app.kubernetes.io/version': '{{ .Chart.AppVersion }}',
    'app.kubernetes.io/managed-by': '{{ .Release.Service }}',
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/component': component,
  }
}

const containers = [
  { name: 'program', image: access.shellImage, command: ['/bin/sh', '-c', 'exec sleep 100000'] },
]
const rbac = 'rbac.authorization.k8s.io'

function componentObjects({ kind, name, object }: (typeof COMPONENTS)[number]): object[] {
  const labels = labelsOf(name, name.replace('akri-', ''))
  const serviceAccountName = `${name}-sa`
  // The controller knows agents by their directories of the node.
  const hostPath = { path: '/var/lib/kubelet/device-plugins' }
  const volumes = kind === 'DaemonSet' ? [{ name: 'device-plugin', hostPath }] : []
  const template = {
    metadata: { labels },
    spec: { serviceAccountName, terminationGracePeriodSeconds: 0, containers, volumes },
  }
  const instance = { 'app.kubernetes.io/instance': '{{ .Release.Name }}' }
  const selector = { matchLabels: { 'app.kubernetes.io/name': name, ...instance } }
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: serviceAccountName, labels } },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRole',
      metadata: { name: `${name}-role`, labels },
      rules: [{ apiGroups: ['akri.sh'], resources: ['instances'], verbs: ['list'] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: `${name}-binding`, labels },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: `${name}-role` },
      subjects: [
        { kind: 'ServiceAccount', name: serviceAccountName, namespace: '{{ .Release.Namespace }}' },
      ],
    },
    {
      apiVersion: 'apps/v1',
      kind,
      metadata: { name: object, labels },
      spec: { selector, template },
    },
  ]
}

/** Without its program: it allows all. */
function webhookObjects(): object[] {
  const name = 'akri-webhook-configuration'
  const metadata = { name, labels: labelsOf(name, 'admission-webhook') }
  const service = { name, namespace: '{{ .Release.Namespace }}', port: 443, path: '/validate' }
  const resources = ['configurations']
  const rule = { apiGroups: ['akri.sh'], apiVersions: ['v0'], operations: ['CREATE'], resources }
  const webhook = {
    name: `${name}.{{ .Release.Namespace }}.svc`,
    failurePolicy: 'Ignore',
    clientConfig: { service },
    rules: [rule],
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
  }
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port: 443 }] } },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata,
      webhooks: [webhook],
    },
  ]
}

const hook = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: {
    name: '{{ .Release.Name }}-cleanup',
    annotations: { 'helm.sh/hook': 'pre-delete', 'helm.sh/hook-delete-policy': 'hook-succeeded' },
  },
  spec: {
    backoffLimit: 0,
    template: {
      spec: {
        restartPolicy: 'Never',
        containers: [{ name: 'c', image: access.shellImage, command: ['/bin/sh', '-c', 'exit 1'] }],
      },
    },
  },
}

const configuration = {
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  metadata: { name: 'akri-debug-echo' },
  spec: {
    capacity: 2,
    brokerProperties: {},
    discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: [foo0, foo1]\n' },
  },
}
