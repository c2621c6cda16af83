import { expect, it } from 'vitest'
import { configurationFindings, type UsedIn } from './configuration-problems.js'
import { BUNDLED_TYPES } from './generated/bundled-types.js'

const findings = (brokerSpec: unknown, usedIn: UsedIn = 'cluster') =>
  configurationFindings(
    {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'lab' },
      spec: { discoveryHandler: { name: 'lab' }, brokerSpec },
    },
    { types: BUNDLED_TYPES, usedIn },
  )
const containers = [{ name: 'b', image: 'i' }]

it.each<[string, object]>([
  ['nothing', {}],
  ['updateStrategy alone', { updateStrategy: { type: 'OnDelete' } }],
  ['kinds that are all null', { brokerPodSpec: null, brokerJobSpec: null }],
])('a brokerSpec with %s is a warning in each program, and no problem', (_what, brokerSpec) => {
  for (const usedIn of ['cluster', 'otherCluster', 'node'] as const)
    expect(findings(brokerSpec, usedIn)).toEqual([
      {
        level: 'warning',
        path: 'spec.brokerSpec',
        message:
          'it has no broker: write brokerPodSpec, brokerJobSpec or brokerDeploymentSpec, ' +
          'or leave it out',
      },
    ])
})

it.each<[string, unknown]>([
  ['an absent brokerSpec', undefined],
  ['a brokerSpec that is null', null],
  ['a Pod where the others are null', { brokerPodSpec: { containers }, brokerJobSpec: null }],
  ['a Deployment', { brokerDeploymentSpec: { template: { spec: { containers } } } }],
])('%s is no warning', (_what, brokerSpec) => {
  expect(findings(brokerSpec)).toEqual([])
})

it('a broker of a wrong type is a problem alone', () => {
  expect(findings({ brokerPodSpec: 'x' })).toMatchObject([{ level: 'problem' }])
  expect(findings('x')).toMatchObject([{ level: 'problem' }])
})

it.each<[string, object, string, RegExp]>([
  ['no container', { brokerPodSpec: { containers: [] } }, '', /^it is empty; write a container$/],
  [
    'a container without a name',
    { brokerPodSpec: { containers: [{ image: 'i' }] } },
    '[0].name',
    /^it is missing; write the name of the container$/,
  ],
  [
    'an init container without an image',
    { brokerPodSpec: { containers, initContainers: [{ name: 'a', image: '' }] } },
    '[0].image',
    /^it is missing; write the image of the container$/,
  ],
  [
    'a container without an image, which only akri run can start',
    { brokerJobSpec: { template: { spec: { containers: [{ name: 'b', command: ['sh'] }] } } } },
    '[0].image',
    /only akri run can start the broker$/,
  ],
])('names what no cluster can create: %s', (_what, brokerSpec, at, message) => {
  const [found, ...others] = findings(brokerSpec)
  expect(found?.path.endsWith(`ontainers${at}`)).toBe(true)
  expect(found?.message).toMatch(message)
  expect(others).toEqual([])
})
