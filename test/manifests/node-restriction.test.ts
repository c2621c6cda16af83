import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { load, loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { hasKubectl, kubectl } from '../e2e/support/kubectl.js'
import { MANIFESTS } from './folder.js'

// The policies must match the manifests of the agent.

interface Policy {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: {
    readonly matchConstraints: {
      readonly resourceRules: readonly { readonly resources: readonly string[] }[]
    }
    readonly matchConditions: readonly { readonly expression: string }[]
    readonly validations: readonly {
      readonly expression: string
      readonly message?: string
      readonly reason?: string
    }[]
  }
}

interface Binding {
  readonly spec: { readonly policyName: string; readonly validationActions: readonly string[] }
}

const read = <T>(...file: string[]) =>
  load(readFileSync(path.join(MANIFESTS, ...file), 'utf8')) as T
const files = readdirSync(path.join(MANIFESTS, 'node-restriction')).filter(
  (file) => file !== 'kustomization.yaml',
)
const policies = files
  .filter((file) => file.endsWith('-policy.yaml'))
  .map((file) => read<Policy>('node-restriction', file))

describe('deploy/manifests/node-restriction', () => {
  it('applies to the account of the agent only', () => {
    const { metadata } = read<{ metadata: { name: string; namespace: string } }>(
      'agent/service-account.yaml',
    )
    const account = `system:serviceaccount:${metadata.namespace}:${metadata.name}`
    for (const { spec } of policies)
      expect(spec.matchConditions.map(({ expression }) => expression)).toEqual([
        `request.userInfo.username == '${account}'`,
      ])
    const bindings = files
      .filter((file) => file.endsWith('-binding.yaml'))
      .map((file) => read<Binding>('node-restriction', file))
    expect(bindings.map(({ spec }) => spec.policyName)).toEqual(
      policies.map(({ metadata: { name } }) => name),
    )
    for (const { spec } of bindings) expect(spec.validationActions).toEqual(['Deny'])
  })

  const needs = hasKubectl() ? '' : ' (needs kubectl)'
  it.skipIf(!hasKubectl())(
    `applies to agents of another namespace by the kustomization of the docs${needs}`,
    async () => {
      const page = readFileSync(path.join(MANIFESTS, '../../docs/rights.md'), 'utf8')
      const [, text = expect.fail('the docs have no replacement')] =
        /```yaml\n([^`]*\nreplacements:[^`]*)```/.exec(page) ?? []
      const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-kustomize-'))
      writeFileSync(
        path.join(directory, 'kustomization.yaml'),
        text.replaceAll('../akri.js/deploy/manifests', path.relative(directory, MANIFESTS)),
      )
      const objects = loadAll(await kubectl('kustomize', directory)) as Policy[]
      const found = objects.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
      expect(found).toHaveLength(policies.length)
      for (const { spec } of found)
        expect(spec.matchConditions.map(({ expression }) => expression)).toEqual([
          "request.userInfo.username == 'system:serviceaccount:factory:akri-agent-sa'",
        ])
      const namespaceOf = (name: string) =>
        objects.flatMap(({ metadata }) => (metadata.name === name ? [metadata.namespace] : []))
      expect(namespaceOf('akri-controller-node-leases')).toEqual([
        'kube-node-lease',
        'kube-node-lease',
      ])
      expect(namespaceOf('akri-controller-sa')).toEqual(['factory'])
    },
  )

  it('covers all that the agent may write of our resources', () => {
    const { rules } = read<{
      rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[]
    }>('agent/cluster-role.yaml')
    const writable = rules
      .filter(
        ({ apiGroups, verbs }) =>
          apiGroups.includes('akri.sh') &&
          verbs.some((verb) => !['get', 'list', 'watch'].includes(verb)),
      )
      .flatMap(({ resources }) => resources)
    const covered = policies.flatMap(({ spec }) =>
      spec.matchConstraints.resourceRules.flatMap(({ resources }) => resources),
    )
    expect(covered).toEqual(expect.arrayContaining(writable))
  })

  it('gives the reason of each rejection, with the code Forbidden', () => {
    for (const { spec } of policies)
      for (const { message, reason } of spec.validations)
        expect([message?.length, reason]).toEqual([expect.any(Number), 'Forbidden'])
  })
})
