import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { MANIFESTS } from './installation.js'

// The policies must match the manifests of the agent.

interface Policy {
  readonly metadata: { readonly name: string }
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
  it('lists all its files, and is no part of deploy/manifests', () => {
    expect(
      read<{ resources: string[] }>('node-restriction/kustomization.yaml').resources.toSorted(),
    ).toEqual(files.toSorted())
    expect(read<{ resources: string[] }>('kustomization.yaml').resources).not.toContain(
      'node-restriction',
    )
  })

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
