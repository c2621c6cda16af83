import { existingSystemProblems } from '@akrijs/api'
import { ApiError } from '@akrijs/kube'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { render } from '../../helm/chart.js'
import { missingHelm } from '../../helm/programs.js'
import { describeUnless } from '../../support/unless.js'
import { kubectl, kubectlWith } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'
import { missingForPolicies } from './policies.js'

// Where agents of both systems run, the API server refuses what stops those of the existing system,
// also without our webhook.

const lacks = (await missingForPolicies()) ?? missingHelm('helm4')
const NAME = 'cam'
const handler = { name: 'debugEcho', discoveryDetails: 'descriptions: []' }
const brokerPodSpec = { containers: [{ name: 'c', image: 'i' }] }
const brokerJobSpec = { template: { spec: brokerPodSpec } }
const brokerDeploymentSpec = {
  selector: { matchLabels: { a: 'b' } },
  template: { metadata: { labels: { a: 'b' } }, spec: brokerPodSpec },
}

describeUnless(lacks, 'the policy for agents of both systems', () => {
  let world: World
  let manifests: string

  beforeAll(async () => {
    world = await World.open()
    // It was there before the policy.
    await create({ discoveryHandler: handler, brokerProperties: null })
    const options = [
      ...['--api-versions', 'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy'],
      ...['--show-only', 'templates/compatibility-policy.yaml'],
    ]
    const objects = await render({ compatibility: 'akri-0.13' }, 'akri', options, 'helm4')
    manifests = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })
    await kubectlWith(manifests, 'apply', '-f', '-')
    // A new policy applies after a moment.
    await eventually(async () =>
      expect(await refusal({ discoveryHandler: handler, brokerSpec: {} })).toBeDefined(),
    )
  })

  afterAll(() =>
    tidyUp(
      () => kubectlWith(manifests, 'delete', '--ignore-not-found', '-f', '-'),
      async () => world?.close(),
    ),
  )

  const configuration = (spec: object, name: string) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name },
    spec,
  })
  const create = (spec: object, query: Record<string, string> = {}, name = NAME) =>
    world.client.request({
      method: 'POST',
      path: world.api('Configuration').path(world.namespace),
      query,
      body: configuration(spec, name),
    })
  const patch = (body: object) => world.api('Configuration').patch(world.key(NAME), 'merge', body)
  /** The API server's sentence; undefined if it accepts the object. */
  const refusal = async (spec: object) => {
    const answer = await create(spec, { dryRun: 'All' }, 'other').then(
      () => undefined,
      (error: unknown) => error,
    )
    if (answer === undefined) return
    expect(ApiError.is(answer, 422), String(answer)).toBe(true)
    return String(answer)
  }

  it('fits the types of the custom resource by the check of the API server', async () => {
    await eventually(async () => {
      const { metadata, status } = JSON.parse(
        await kubectl('get', 'validatingadmissionpolicy', 'akri-compatibility', '-o', 'json'),
      )
      expect(status?.observedGeneration).toBe(metadata.generation)
      expect(status?.typeChecking?.expressionWarnings ?? []).toEqual([])
    })
  })

  it.each<[string, object]>([
    ['a Deployment', { brokerSpec: { brokerDeploymentSpec } }],
    ['an update strategy', { brokerSpec: { brokerPodSpec, updateStrategy: {} } }],
    ['a null for a strategy', { brokerSpec: { brokerPodSpec, updateStrategy: null } }],
    ['a null for a Job', { brokerSpec: { brokerPodSpec, brokerJobSpec: null } }],
    ['a null for a Pod', { brokerSpec: { brokerPodSpec: null, brokerJobSpec } }],
    ['a broker without a template', { brokerSpec: {} }],
    ['null for properties', { brokerProperties: null }],
  ])('A25 refuses %s, as the webhook does', async (_, fields) => {
    const spec = { discoveryHandler: handler, ...fields }
    const [problem] = existingSystemProblems({ spec })
    expect(await refusal(spec)).toContain(`${problem?.path}: agents of Akri 0.13 stop at this`)
  })

  it.each<[string, object]>([
    ['no broker', {}],
    ['a null for the broker', { brokerSpec: null }],
    ['a Pod and properties', { brokerSpec: { brokerPodSpec }, brokerProperties: { SITE: 'a' } }],
    ['a Job and a null for Services', { brokerSpec: { brokerJobSpec }, instanceServiceSpec: null }],
  ])('accepts %s', async (_, fields) => {
    const spec = { discoveryHandler: handler, ...fields }
    expect(existingSystemProblems({ spec })).toEqual([])
    expect(await refusal(spec)).toBeUndefined()
  })

  it('lets a Configuration of before get labels, and a spec that is right', async () => {
    await patch({ metadata: { labels: { site: 'north' } } })
    await expect(patch({ spec: { capacity: 2 } })).rejects.toThrow(/spec\.brokerProperties: agents/)
    await patch({ spec: { capacity: 2, brokerProperties: { SITE: 'north' } } })
  })
})
