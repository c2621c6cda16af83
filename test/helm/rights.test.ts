import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { type KubernetesObject, missingForChart, render } from './chart.js'
import { kustomize } from './kustomize.js'

// The table of rights in docs/rights.md names every right of the programs, and no other.

const root = path.join(import.meta.dirname, '../..')
const MANIFESTS = [
  'agent',
  'controller',
  'webhook',
  'handlers/onvif',
  'handlers/opcua',
  'handlers/network',
]

interface Role extends KubernetesObject {
  readonly rules: readonly {
    readonly apiGroups: readonly string[]
    readonly resources: readonly string[]
    readonly resourceNames?: readonly string[]
    readonly verbs: readonly string[]
  }[]
}

interface Binding extends KubernetesObject {
  readonly roleRef: { readonly kind: string; readonly name: string }
  readonly subjects: readonly { readonly name: string }[]
}

/** One line for each right: account, namespace, resource, verb. */
function rightsIn(objects: readonly KubernetesObject[]): string[] {
  const named = (kind: string) => objects.filter((object) => object.kind === kind)
  const bindings = [...named('RoleBinding'), ...named('ClusterRoleBinding')] as Binding[]
  const lines = bindings.flatMap(({ metadata, roleRef, subjects }) => {
    const role = (named(roleRef.kind) as Role[]).find(
      (one) => one.metadata.name === roleRef.name && one.metadata.namespace === metadata.namespace,
    )
    const { rules } = role ?? expect.fail(`${metadata.name} binds a role that is not there`)
    const place = roleRef.kind === 'ClusterRole' ? 'all' : (metadata.namespace ?? 'as applied')
    return subjects.flatMap((subject) =>
      rules.flatMap(({ apiGroups, resources, resourceNames = [''], verbs }) =>
        apiGroups.flatMap((group) =>
          resources.flatMap((resource) =>
            resourceNames.flatMap((name) =>
              verbs.map((verb) =>
                [subject.name, place, qualified(resource, group), name, verb].join(' '),
              ),
            ),
          ),
        ),
      ),
    )
  })
  return lines.sort()
}

/** As kubectl names a resource: `configurations.akri.sh/status`. */
function qualified(resource: string, group: string): string {
  const [plural = '', subresource] = resource.split('/')
  return [`${plural}${group === '' ? '' : `.${group}`}`, subresource]
    .filter((part) => part !== undefined)
    .join('/')
}

/** The rights of the table. Each row has a reason. */
function documentedRights(): string[] {
  const page = readFileSync(path.join(root, 'docs/rights.md'), 'utf8')
  const [, table = ''] = /\| Account \| Namespace \|[^\n]*\n\|[-|]+\n((?:\|.*\n)+)/.exec(page) ?? []
  const words = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)
  return table
    .trim()
    .split('\n')
    .flatMap((row) => {
      const [, account, place, resource, verbs, reason = ''] = row.split('|')
      expect(reason.trim(), row).toMatch(/\w+ \w+/)
      const [plural, name = ''] = words(resource)
      return words(verbs).map((verb) =>
        [words(account)[0], words(place)[0] ?? place?.trim(), plural, name, verb].join(' '),
      )
    })
    .sort()
}

describe('the table of rights in docs/rights.md', () => {
  const manifests = (folders: readonly string[]) =>
    folders.flatMap((folder) => kustomize(path.join(root, 'deploy/manifests', folder)))

  it('has every right of deploy/manifests, each with its reason, and no other', () => {
    expect(documentedRights()).toEqual(rightsIn(manifests([...MANIFESTS, 'read-secrets'])))
  })

  it('has no right to create Secrets or tokens, to bind or to act as another', () => {
    for (const right of rightsIn(manifests([...MANIFESTS, 'read-secrets']))) {
      expect(right).not.toMatch(/ secrets {2}(create|update|patch|delete)$/)
      expect(right).not.toMatch(/ (serviceaccounts|pods\/exec|clusterrole|role|binding)/)
      expect(right).not.toMatch(/\*| (impersonate|escalate|bind)$/)
    }
  })

  it.skipIf(missingForChart !== undefined)(
    'has nothing of the page, which may list and watch what docs/ui.md names, and no Secret',
    async () => {
      const ui = { enabled: true, hosts: ['devices.example.com'] }
      const rights = rightsIn(await render({ ui })).filter((right) => /^akri-ui-sa /.test(right))
      const kinds = ['configurations.akri.sh', 'instances.akri.sh', 'nodereports.akri.sh']
      expect(rights).toEqual(
        [...kinds, 'events', 'pods']
          .flatMap((kind) => ['list', 'watch'].map((verb) => `akri-ui-sa all ${kind}  ${verb}`))
          .sort(),
      )
      const page = readFileSync(path.join(root, 'docs/ui.md'), 'utf8')
      for (const kind of ['Configurations', 'Instances', 'NodeReports', 'Pods', 'Events'])
        expect(page).toMatch(new RegExp(`\\| ${kind} \\|`))
    },
  )

  interface Workload extends KubernetesObject {
    readonly spec: {
      readonly template: {
        readonly spec: {
          readonly serviceAccountName?: string
          readonly automountServiceAccountToken?: boolean
        }
      }
    }
  }
  /** The account of each Pod with a token. */
  function accountsOf(objects: readonly KubernetesObject[]): Record<string, string> {
    const workloads = objects.filter(({ kind }) => /^(DaemonSet|Deployment|Job)$/.test(kind))
    const accounts = (workloads as Workload[]).map(({ metadata, spec }) => {
      const { serviceAccountName, automountServiceAccountToken } = spec.template.spec
      const account = serviceAccountName ?? 'default'
      return [metadata.name, automountServiceAccountToken === false ? 'none' : account]
    })
    return Object.fromEntries(accounts)
  }

  it.skipIf(missingForChart !== undefined)(
    'holds for all programs: no other Pod has a token',
    async () => {
      const handlers = builtIn.handlers.map(({ name }) => [name, { discovery: { enabled: true } }])
      const custom = { discovery: { enabled: true, image: { repository: 'handler' } } }
      const ui = { enabled: true, hosts: ['devices.example.com'] }
      const programs = { ...Object.fromEntries(handlers), custom, ui }
      const values = { ...programs, discovery: { oneProcess: false } }
      const together = manifests(['handlers/network'])
      expect(accountsOf([...(await render(values)), ...together])).toEqual({
        'akri-agent-daemonset': 'akri-agent-sa',
        'akri-controller-deployment': 'akri-controller-sa',
        'akri-webhook-configuration': 'akri-webhook-sa',
        'akri-ui': 'akri-ui-sa',
        'akri-cleanup': 'akri-helm-cleanup-hook-sa',
        'akri-custom-discovery-daemonset': 'none',
        ...Object.fromEntries(
          ['network', ...builtIn.handlers.map(({ folder }) => path.basename(folder))].map(
            (name) => [`akri-${name}-discovery-daemonset`, 'none'],
          ),
        ),
      })
    },
  )
})
