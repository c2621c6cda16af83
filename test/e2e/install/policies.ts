import path from 'node:path'
import { ApiError } from '@akrijs/kube'
import { expect } from 'vitest'
import { instanceOf } from '../../cluster/support/instances.js'
import { kubectl } from '../support/kubectl.js'
import { eventually, type World } from '../support/world.js'
import { clientOfAgent, MANIFESTS, makeNamespace, missingForInstallation } from './installation.js'

// Installs deploy/manifests/node-restriction on a cluster.

export const POLICIES = path.join(MANIFESTS, 'node-restriction')

/** The reason why policies cannot be tested; undefined if they can. */
export async function missingForPolicies(): Promise<string | undefined> {
  const lacks = missingForInstallation()
  if (lacks !== undefined) return lacks
  const { resources } = JSON.parse(
    await kubectl('get', '--raw', '/apis/admissionregistration.k8s.io/v1'),
  ) as {
    resources: { kind: string }[]
  }
  if (resources.some(({ kind }) => kind === 'ValidatingAdmissionPolicy')) return undefined
  return 'needs Kubernetes 1.30 or newer, which has ValidatingAdmissionPolicy'
}

/**
 * Creates the account of the agent with its rights, without an agent. Resolves when the policies
 * apply to the account.
 */
export async function applyPolicies(world: World): Promise<void> {
  await makeNamespace()
  for (const file of ['service-account', 'cluster-role', 'cluster-role-binding'])
    await kubectl('apply', '-f', path.join(MANIFESTS, 'agent', `${file}.yaml`))
  await kubectl('apply', '-k', POLICIES)
  const nodeless = await clientOfAgent(world.client)
  const trial = {
    method: 'POST' as const,
    path: world.api('Instance').path(world.namespace),
    query: { dryRun: 'All' },
    body: instanceOf(world.namespace, 'trial'),
  }
  try {
    // A new policy applies after a moment.
    await eventually(() => refused(nodeless.request(trial), 'the token is of no node'))
  } finally {
    nodeless.close()
  }
}

/** Resolves if a policy rejects the write, with the policy's reason. */
export async function refused(work: Promise<unknown>, because: string): Promise<void> {
  const answer = await work.then(
    () => 'accepted',
    (error: unknown) => error,
  )
  expect(ApiError.is(answer, 403), `${because}: ${answer}`).toBe(true)
  expect(String(answer)).toContain(because)
}
