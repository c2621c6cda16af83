import { describe, expect, it } from 'vitest'
import { existingSystemProblems } from './existing-system.js'

const paths = (spec: object) => existingSystemProblems({ spec }).map(({ path }) => path)
const template = { containers: [] }

describe('a Configuration that agents of the existing system read', () => {
  it.each<[string, object]>([
    ['has no broker', { discoveryHandler: { name: 'udev' } }],
    ['has a Pod', { brokerSpec: { brokerPodSpec: template }, capacity: 2, brokerProperties: {} }],
    ['has a Job', { brokerSpec: { brokerJobSpec: template } }],
    ['has no broker, by a null', { brokerSpec: null, instanceServiceSpec: null }],
  ])('%s', (_, spec) => {
    expect(paths(spec)).toEqual([])
  })

  it.each<[string, object]>([
    ['spec.brokerSpec.brokerDeploymentSpec', { brokerSpec: { brokerDeploymentSpec: template } }],
    ['spec.brokerSpec.updateStrategy', { brokerSpec: { brokerPodSpec: {}, updateStrategy: {} } }],
    ['spec.brokerSpec.updateStrategy', { brokerSpec: { brokerPodSpec: {}, updateStrategy: null } }],
    ['spec.brokerSpec.brokerJobSpec', { brokerSpec: { brokerPodSpec: {}, brokerJobSpec: null } }],
    ['spec.brokerSpec', { brokerSpec: {} }],
    ['spec.capacity', { capacity: null }],
    ['spec.brokerProperties', { brokerProperties: null }],
    ['spec.discoveryHandler.discoveryDetails', { discoveryHandler: { discoveryDetails: null } }],
  ])('A25 has no %s: %j', (path, spec) => {
    expect(paths(spec)).toEqual([path])
  })

  it.each([undefined, null, 'text', [], { spec: 5 }, { spec: { brokerSpec: [null] } }])(
    'is judged by its fields alone: %j',
    (object) => {
      expect(existingSystemProblems(object)).toEqual([])
    },
  )
})
