import { X509Certificate } from 'node:crypto'
import { API_VERSION, CONFIGURATIONS, GROUP, INSTANCES, NODE_REPORTS } from '@akrijs/api'
import { ApiError, keyParts, LEASES, Resource } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import { planForward } from '../migrate/forward-plan.js'
import { handlersOf } from '../objects/handlers.js'
import type { ExaminedCluster, ProgramPod } from './examined-cluster.js'
import { type Finding, findingOf } from './finding.js'
import { PROGRAMS, RIGHTS, type Rule } from './program-rights.js'

/** The checks of `akri doctor`, by the part of the cluster that each is about. */
export const CHECKS: Readonly<Record<string, (cluster: ExaminedCluster) => Promise<Finding[]>>> = {
  Kubernetes: kubernetesVersion,
  'custom resources': customResources,
  programs,
  'Pod security': podSecurity,
  rights,
  webhook,
  kubelets,
  clocks,
  handlers,
  'Akri 0.13': leftovers,
  'resource names': resourceNames,
}

/** The oldest supported minor version of Kubernetes 1: docs/decisions/0011. */
const OLDEST_MINOR = 26
/** A kubelet writes its Lease every 10 s, and is not ready after 40 s without. */
const MAX_CLOCK_MS = 60_000
const DAY_MS = 24 * 3_600_000
/** A certificate that ends this soon was not renewed: the webhook renews after two thirds. */
const EXPIRES_SOON_MS = 7 * DAY_MS
/** A Node has room for some thousands of names: docs/devices.md. */
const MANY_NAMES = 2000

const INSTALL = 'install akri.js: docs/helm.md'
const UPDATE_RESOURCES = 'update the custom resources: docs/helm.md#upgrading-and-uninstalling'

async function kubernetesVersion(cluster: ExaminedCluster): Promise<Finding[]> {
  const version = String(valueAt(await cluster.get('/version'), 'gitVersion'))
  const minor = Number(/^v1\.(\d+)/.exec(version)?.[1])
  return minor < OLDEST_MINOR
    ? [
        {
          level: 'problem',
          text: `${version} is older than v1.${OLDEST_MINOR}: its kubelets cannot use the agents`,
          remedy: 'update Kubernetes: docs/operators.md#versions-of-kubernetes',
        },
      ]
    : [{ level: 'ok', text: version }]
}

async function customResources(cluster: ExaminedCluster): Promise<Finding[]> {
  const wanted = [
    ...[CONFIGURATIONS, INSTANCES].flatMap(({ plural }) => [plural, `${plural}/status`]),
    NODE_REPORTS.plural,
  ]
  const served = await cluster.get(`/apis/${API_VERSION}`).catch((error: unknown) => {
    if (!ApiError.is(error, 404)) throw error
    return undefined
  })
  if (served === undefined)
    return [{ level: 'problem', text: `the cluster has no ${API_VERSION}`, remedy: INSTALL }]
  const names = itemsOf(served, 'resources').map((resource) => valueAt(resource, 'name'))
  const missing = wanted.filter((name) => !names.includes(name))
  return missing.length === 0
    ? [{ level: 'ok', text: API_VERSION }]
    : [
        {
          level: 'problem',
          text: `${missing.join(', ')} of ${API_VERSION} are missing`,
          remedy: UPDATE_RESOURCES,
        },
      ]
}

/** Whether agents and controllers run. The webhook is optional. */
async function programs(cluster: ExaminedCluster): Promise<Finding[]> {
  const pods = await cluster.programs()
  return PROGRAMS.flatMap((program): Finding[] => {
    // A Pod that was evicted stays until the garbage collector comes.
    const own = pods.filter((pod) => pod.program === program && pod.phase !== 'Failed')
    const broken = own.filter(({ isReady }) => !isReady)
    const [first] = broken
    const text = `${program}: ${own.length - broken.length} of ${own.length} Pods are ready`
    if (first !== undefined) {
      const { namespace, name } = keyParts(first.key)
      const why = first.why === '' ? first.phase : first.why
      const remedy = `kubectl -n ${namespace} describe pod ${name}`
      return [{ level: 'problem', text: `${text}; ${first.key}: ${why}`, remedy }]
    }
    if (own.length > 0) return [{ level: 'ok', text }]
    return program === 'akri-webhook'
      ? [{ level: 'ok', text: `${program}: not installed (optional)` }]
      : [
          {
            level: 'problem',
            text: `${program}: no Pod`,
            remedy: `${INSTALL}, or see why its workload has no Pods`,
          },
        ]
  })
}

/** The namespace of the agents must permit privileged Pods. */
async function podSecurity(cluster: ExaminedCluster): Promise<Finding[]> {
  const selector = { labelSelector: 'app.kubernetes.io/name=akri-agent' }
  const sets = await cluster.list('/apis/apps/v1/daemonsets', selector)
  const names = new Set(sets.map((set) => String(valueAt(set, 'metadata', 'namespace'))))
  const findings = [...names].map(async (name): Promise<Finding> => {
    const label = 'pod-security.kubernetes.io/enforce'
    const found = await cluster.get(`/api/v1/namespaces/${name}`)
    const level = valueAt(found, 'metadata', 'labels', label)
    const text = `namespace ${name}: ${level === undefined ? 'no label' : `${label}=${level}`}`
    const remedy = `kubectl label namespace ${name} --overwrite ${label}=privileged`
    if (level === 'privileged') return { level: 'ok', text }
    // Without the label, the default of the cluster decides, which permits all on most clusters.
    return { level: level === undefined ? 'warning' : 'problem', text, remedy }
  })
  return Promise.all(findings)
}

async function rights(cluster: ExaminedCluster): Promise<Finding[]> {
  const accounts = new Map<string, ProgramPod>()
  for (const pod of await cluster.programs())
    accounts.set(`${keyParts(pod.key).namespace}:${pod.account} ${pod.program}`, pod)
  const found = await Promise.all([...accounts.values()].map((pod) => missingRights(pod, cluster)))
  const missing = found.flat()
  return missing.length === 0 && accounts.size > 0
    ? [{ level: 'ok', text: `${accounts.size} accounts have their rights` }]
    : findingOf('problem', missing, 'apply the roles again: docs/rights.md#rights-in-the-cluster')
}

async function missingRights(
  { key, account, program }: ProgramPod,
  cluster: ExaminedCluster,
): Promise<string[]> {
  const own = keyParts(key).namespace
  const asked = RIGHTS[program].flatMap((rule) => requestsOf(rule, own))
  const missing = await Promise.all(
    asked.map(async (resourceAttributes) => {
      const answer = await cluster.client.request({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: {
            user: `system:serviceaccount:${own}:${account}`,
            groups: ['system:serviceaccounts', `system:serviceaccounts:${own}`],
            resourceAttributes,
          },
        },
        signal: cluster.objects.signal,
      })
      const { verb, resource, subresource } = resourceAttributes
      const what = subresource === undefined ? resource : `${resource}/${subresource}`
      return valueAt(answer, 'status', 'allowed') === true
        ? []
        : [`${account} of ${own} may not ${verb} ${what}`]
    }),
  )
  return missing.flat()
}

interface ResourceAttributes {
  readonly group: string
  readonly resource: string
  readonly subresource: string | undefined
  readonly verb: string
  /** Undefined for all. */
  readonly namespace: string | undefined
  readonly name: string | undefined
}

function requestsOf(rule: Rule, own: string): ResourceAttributes[] {
  const { apiGroups, resources, verbs, resourceNames: [name] = [] } = rule
  const namespace = rule.namespace === 'own' ? own : rule.namespace
  return apiGroups.flatMap((group) =>
    resources.flatMap((each) => {
      const [resource = '', subresource] = each.split('/')
      return verbs.map((verb) => ({ group, resource, subresource, verb, namespace, name }))
    }),
  )
}

/** The certificate of the authority, which the API server trusts. */
async function webhook(cluster: ExaminedCluster): Promise<Finding[]> {
  const path = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'
  const all = await cluster.list(path)
  const ofUs = all.flatMap((object) =>
    itemsOf(object, 'webhooks').filter((each) =>
      itemsOf(each, 'rules').some((rule) => itemsOf(rule, 'apiGroups').includes(GROUP)),
    ),
  )
  return ofUs.map((each) => {
    const name = String(valueAt(each, 'name'))
    const bundle = valueAt(each, 'clientConfig', 'caBundle')
    const remedy = 'docs/webhook.md#certificates'
    if (typeof bundle !== 'string' || bundle === '')
      return { level: 'problem', text: `${name} has no caBundle`, remedy }
    const expiry = expiryOf(bundle)
    if (expiry === undefined)
      return { level: 'problem', text: `caBundle of ${name} is no certificate`, remedy }
    const leftMs = expiry - cluster.wallMs()
    const until = new Date(expiry).toISOString()
    if (leftMs < 0)
      return { level: 'problem', text: `the authority of ${name} expired at ${until}`, remedy }
    return leftMs < EXPIRES_SOON_MS
      ? { level: 'warning', text: `the authority of ${name} expires at ${until}`, remedy }
      : { level: 'ok', text: `the authority of ${name} is valid until ${until}` }
  })
}

/** When the last certificate of a bundle expires; a bundle has old ones while they are renewed. */
function expiryOf(bundle: string): number | undefined {
  const pem = Buffer.from(bundle, 'base64').toString('latin1')
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  try {
    const ends = certificates.map((text) => Date.parse(new X509Certificate(text).validTo))
    return ends.length === 0 ? undefined : Math.max(...ends)
  } catch {
    return undefined
  }
}

/** The sockets of kubelets, as the agents report them and as the Nodes show them. */
async function kubelets(cluster: ExaminedCluster): Promise<Finding[]> {
  const { nodes } = await cluster.facts()
  const refused = nodes.flatMap(({ name, report }) =>
    Object.values(report?.configurations ?? {}).flatMap(({ conditions }) =>
      conditions
        .filter(({ reason }) => SOCKET_REASONS.has(reason))
        .map(({ message }) => `${name}: ${message}`),
    ),
  )
  const silent = nodes
    .filter(({ agent, report }) => agent?.isReady === true && report === undefined)
    .map(({ name, agent }) => `${name}: its agent ${agent?.key} writes no report`)
  const reporting = nodes.filter(({ report }) => report !== undefined).length
  const findings = [
    ...findingOf(
      'problem',
      [...new Set(refused)],
      'compare the directory of device plugins: docs/rights.md#what-the-agent-may-do',
    ),
    ...findingOf('problem', silent, 'read the log of the agent'),
  ]
  const text = `${reporting} of ${nodes.length} nodes report`
  return findings.length > 0 ? findings : [{ level: 'ok', text }]
}

const SOCKET_REASONS = new Set(['KubeletUnavailable', 'RegistrationRefused'])

/** Compares the clocks of kubelets with that of this machine. Certificates depend on them. */
async function clocks(cluster: ExaminedCluster): Promise<Finding[]> {
  const [{ nodes }, leases] = await Promise.all([
    cluster.facts(),
    cluster.list(new Resource(cluster.client, LEASES).path('kube-node-lease')),
  ])
  const now = cluster.wallMs()
  const ready = new Set(nodes.filter(({ isReady }) => isReady).map(({ name }) => name))
  const wrong = leases.flatMap((lease) => {
    const name = String(valueAt(lease, 'metadata', 'name'))
    const ms = Date.parse(String(valueAt(lease, 'spec', 'renewTime'))) - now
    if (!ready.has(name) || !(Math.abs(ms) > MAX_CLOCK_MS)) return []
    const off = `${Math.round(Math.abs(ms) / 1000)} s ${ms > 0 ? 'ahead' : 'behind'}`
    return `the clock of ${name} is ${off}, by the clock of this machine`
  })
  return wrong.length === 0
    ? [{ level: 'ok', text: `within a minute on ${ready.size} nodes` }]
    : findingOf('warning', wrong, 'run an NTP client there')
}

/** Handlers that Configurations name. */
async function handlers(cluster: ExaminedCluster): Promise<Finding[]> {
  const [configurations, { nodes }] = await Promise.all([
    cluster.objects.configurations(),
    cluster.facts(),
  ])
  const all = handlersOf(
    configurations,
    nodes.flatMap(({ report }) => report ?? []),
  )
  const missing = all
    .filter((handler) => !handler.nodes.some(({ connected }) => connected))
    .map(({ metadata, nodes: [first] }) =>
      first === undefined ? `${metadata.name}: no node reports it` : first.message,
    )
  return missing.length > 0
    ? findingOf('problem', missing, 'akri get handlers; docs/operators.md#handlers')
    : [{ level: 'ok', text: `${all.length} of ${all.length} are connected` }]
}

/** Finalizers and Pods of the existing system, and objects that mean something else here. */
async function leftovers(cluster: ExaminedCluster): Promise<Finding[]> {
  const { changes, findings } = planForward(await cluster.snapshot())
  const texts = [
    ...changes.map(({ kind, key, effects }) => `${kind} ${key}: ${effects.join('; ')}`),
    ...findings.map(({ object, text }) => `${object}: ${text}`),
  ]
  return texts.length === 0
    ? [{ level: 'ok', text: 'nothing is left of it' }]
    : findingOf('warning', texts, 'akri migrate check; docs/migration.md')
}

/** Names in the status of Nodes that no object has any more. A kubelet never removes them. */
async function resourceNames(cluster: ExaminedCluster): Promise<Finding[]> {
  const [configurations, instances, { nodes }] = await Promise.all([
    cluster.objects.configurations(),
    cluster.objects.instances(),
    cluster.facts(),
  ])
  const names = new Set(
    [...configurations, ...instances].map(({ metadata }) => `${GROUP}/${metadata.name}`),
  )
  const stale = nodes.flatMap(({ name, offered }) =>
    [...offered]
      .filter(([resource, count]) => !names.has(resource) && count > 0)
      .map(([resource, count]) => `${name} still offers ${count} of ${resource}, without a device`),
  )
  const many = nodes
    .filter(({ offered }) => offered.size > MANY_NAMES)
    .map(({ name, offered }) => `the status of ${name} has ${offered.size} names of ${GROUP}`)
  const remedy = 'docs/devices.md#names-of-resources-that-nothing-offers-any-more'
  const findings = [...findingOf('problem', stale, remedy), ...findingOf('warning', many, remedy)]
  return findings.length > 0
    ? findings
    : [{ level: 'ok', text: 'each name that is offered has its object' }]
}

function itemsOf(value: unknown, name: string): readonly unknown[] {
  const items = valueAt(value, name)
  return Array.isArray(items) ? items : []
}
