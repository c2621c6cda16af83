import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type KubernetesObject, render, type Values } from './chart.js'
import { HELMS, missingHelm } from './programs.js'

// Helm looks objects of the namespace up here: a server that has the DaemonSet of an agent, the
// Secret of a webhook, and no other object. A cluster is in test/e2e/install: helm.test.ts and
// migration-commands.test.ts.

const NAME = 'app.kubernetes.io/name'
const DAEMON_SET = '/apis/apps/v1/namespaces/akri/daemonsets/akri-agent-daemonset'
const SECRET = '/api/v1/namespaces/akri/secrets/akri-webhook-configuration'
const OF_RELEASE = {
  'meta.helm.sh/release-name': 'akri',
  'meta.helm.sh/release-namespace': 'akri',
}
const NOT_FOUND = { kind: 'Status', apiVersion: 'v1', reason: 'NotFound', code: 404 }
const values = { debugEcho: { configuration: { enabled: true } } }

/** What the server says of its API: it has the kinds of these objects. */
function discoveryOf(objects: readonly KubernetesObject[]): ReadonlyMap<string, object> {
  const kinds = new Map<string, Set<string>>()
  for (const { apiVersion, kind } of objects)
    kinds.set(apiVersion, (kinds.get(apiVersion) ?? new Set()).add(kind))
  const groups = [...kinds.keys()].filter((each) => each !== 'v1')
  const versionOf = (groupVersion: string) => ({
    groupVersion,
    version: groupVersion.split('/')[1],
  })
  return new Map<string, object>([
    ['/version', { major: '1', minor: '34', gitVersion: 'v1.34.0' }],
    ['/api', { kind: 'APIVersions', versions: ['v1'] }],
    [
      '/apis',
      {
        kind: 'APIGroupList',
        groups: groups.map((each) => ({ name: each.split('/')[0], versions: [versionOf(each)] })),
      },
    ],
    ...[...kinds].map(([groupVersion, names]) => {
      const resources = [...names].map((kind) => ({
        name: `${kind.toLowerCase()}s`,
        kind,
        namespaced: true,
        verbs: ['get'],
      }))
      const at = groupVersion === 'v1' ? '/api/v1' : `/apis/${groupVersion}`
      return [at, { kind: 'APIResourceList', groupVersion, resources }] as const
    }),
  ])
}

// Helm before 3.13 looks nothing up for a template.
describe.for(HELMS)('a release, by %s', (helm) => {
  const lacks = missingHelm(helm)
  let server: Server
  let directory: string
  let matchLabels: Readonly<Record<string, string>>
  let secret: object | undefined

  beforeAll(async () => {
    if (lacks !== undefined) return
    const discovery = discoveryOf(await render(values, 'akri', [], helm))
    const daemonSet = () => ({
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: {
        name: 'akri-agent-daemonset',
        namespace: 'akri',
        labels: { 'app.kubernetes.io/managed-by': 'Helm' },
        annotations: OF_RELEASE,
      },
      spec: { selector: { matchLabels } },
    })
    server = createServer(({ url = '' }, response) => {
      const [at = ''] = url.split('?')
      const objects = new Map<string, object | undefined>([
        [DAEMON_SET, daemonSet()],
        [SECRET, secret],
      ])
      const found = objects.get(at) ?? discovery.get(at)
      response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(found ?? NOT_FOUND))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-release-'))
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: {} }],
      'current-context': 'c',
    }
    await writeFile(path.join(directory, 'config'), JSON.stringify(config), { mode: 0o600 })
  })

  afterAll(async () => {
    if (lacks !== undefined) return
    await new Promise((resolve) => server.close(resolve))
  })

  const renderThere = (more: Values = {}) => {
    const options = [
      '--dry-run=server',
      '--disable-openapi-validation',
      `--kubeconfig=${path.join(directory, 'config')}`,
    ]
    return render({ ...values, ...more }, 'akri', options, helm)
  }

  it('does not replace an agent of the existing chart, whose selector cannot change', async ({
    skip,
  }) => {
    if (lacks !== undefined) skip(lacks)
    matchLabels = { [NAME]: 'akri-agent', 'app.kubernetes.io/instance': 'akri' }
    await expect(renderThere()).rejects.toThrow(
      /DaemonSet akri\/akri-agent-daemonset is that of another chart.*docs\/migration\.md/,
    )
  })

  it('replaces an agent of this chart', async ({ skip }) => {
    if (lacks !== undefined) skip(lacks)
    matchLabels = { [NAME]: 'akri-agent' }
    expect((await renderThere()).map(({ kind }) => kind)).toContain('DaemonSet')
  })

  it.for<[string, object | undefined, number]>([
    ['has the empty Secret of the webhook at first', undefined, 1],
    ['keeps its Secret of the webhook', OF_RELEASE, 1],
    ['leaves the Secret of the webhook of version 0.1.0, which created it itself', {}, 0],
  ])('%s', async ([_title, annotations, count], { skip }) => {
    if (lacks !== undefined) skip(lacks)
    matchLabels = { [NAME]: 'akri-agent' }
    const labels = { 'app.kubernetes.io/managed-by': 'Helm' }
    const metadata = { name: 'akri-webhook-configuration', namespace: 'akri', labels }
    secret = annotations && {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { ...metadata, annotations },
    }
    const secrets = (await renderThere()).filter(({ kind }) => kind === 'Secret')
    expect(secrets).toHaveLength(count)
    for (const each of secrets) expect(each).not.toHaveProperty('data')
  })

  it('of Configurations alone can be beside the existing system', async ({ skip }) => {
    if (lacks !== undefined) skip(lacks)
    matchLabels = { [NAME]: 'akri-agent', 'app.kubernetes.io/instance': 'akri' }
    const [controller, agent, rbac] = Array(3).fill({ enabled: false })
    const objects = await renderThere({ controller, agent, rbac })
    expect(objects.map(({ kind }) => kind)).toEqual(['Configuration'])
  })
})
