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
