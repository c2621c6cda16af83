import type { NodeName, ObjectMeta } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { alternativeName } from '../labels.js'
import { ownerReference, testConfiguration, testInstance } from '../testing/objects.js'
import { brokerDeployment, brokerJob, brokerPod, jobName } from './broker-template.js'

const NODE = 'node-a' as NodeName
const broker = {
  name: 'b',
  image: 'x',
  resources: { limits: { '{{PLACEHOLDER}}': '1', cpu: '2' }, requests: { '{{PLACEHOLDER}}': '1' } },
}
const shared = testInstance(['node-a'], { capacity: 2 })
const local = testInstance(['node-a'], { shared: false })

interface Template {
  readonly metadata: ObjectMeta<string>
}

const pod = (spec: object, { instance = shared, node = NODE } = {}) =>
  brokerPod({ instance, node, spec: { ...spec }, hash: 'h', restarts: 0 }) as Template

describe('a broker Pod', () => {
  it('R107 R108 has its name, labels and owner', () => {
    expect(pod({ containers: [broker] }).metadata).toEqual({
      name: 'node-a-cam-8120fe-pod',
      namespace: 'plant',
      labels: {
        app: 'node-a-cam-8120fe-pod',
        controller: 'akri.sh',
        'akri.sh/configuration': 'cam',
        'akri.sh/instance': 'cam-8120fe',
        'akri.sh/target-node': 'node-a',
      },
      annotations: { 'akri.sh/broker-spec-hash': 'h', 'akri.sh/target-node': 'node-a' },
      ownerReferences: [ownerReference('Instance', 'cam-8120fe')],
    })
    expect(pod({ containers: [broker] }, { instance: local }).metadata.name).toBe('cam-8120fe-pod')
  })

  it('R110 asks for its Instance instead of the placeholder, everywhere', () => {
    const { resources } = broker
    const expected = {
      resources: {
        limits: { 'akri.sh/cam-8120fe': '1', cpu: '2' },
        requests: { 'akri.sh/cam-8120fe': '1' },
      },
    }
    const containers = { containers: [broker], initContainers: [broker] }
    expect(pod({ ...containers, resources })).toMatchObject({
      spec: { ...expected, containers: [expected], initContainers: [expected] },
    })
  })

  it('C9 keeps all other fields of the spec, also claims', () => {
    const spec = {
      containers: [
        { ...broker, resources: { claims: [{ name: 'gpu' }], limits: { '{{PLACEHOLDER}}': '1' } } },
      ],
      hostNetwork: true,
      tolerations: [{ operator: 'Exists' }],
      newField: { x: 1 },
      affinity: { podAntiAffinity: { x: 1 } },
    }
    expect(pod(spec)).toMatchObject({
      spec: {
        hostNetwork: true,
        tolerations: spec.tolerations,
        newField: { x: 1 },
        containers: [{ resources: { claims: [{ name: 'gpu' }] } }],
        affinity: { podAntiAffinity: { x: 1 } },
      },
    })
  })

  it('R109 C9 is pinned to its node, whatever other affinity its spec has', () => {
    const pin = { key: 'metadata.name', operator: 'In', values: ['node-a'] }
    const path = 'nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms'
    const terms = (affinity?: object) =>
      valueAt(pod({ containers: [], affinity }), 'spec', 'affinity', ...path.split('.'))
    expect(terms()).toEqual([{ matchFields: [pin] }])
    const zone = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['x'] }] }
    const other = { matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['node-b'] }] }
    const required = {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [zone, other] },
    }
    // Terms are alternatives: each of them needs the node.
    expect(terms({ nodeAffinity: required })).toEqual([
      { ...zone, matchFields: [pin] },
      { matchFields: [...other.matchFields, pin] },
    ])
  })

  it('C9 has a valid name and labels, however long node and Instance are named', () => {
    const label = /^(?=.{1,63}$)[a-z0-9A-Z]([-a-z0-9A-Z_.]*[a-z0-9A-Z])?$/
    // Without a size, fast-check tries only short texts.
    const text = (pattern: RegExp) => fc.stringMatching(pattern, { size: 'max' })
    const name = text(
      /^[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,2}$/,
    )
    fc.assert(
      fc.property(
        name,
        text(/^[a-z0-9]([-a-z0-9]{0,54}[a-z0-9])?$/),
        fc.boolean(),
        (node, configuration, isShared) => {
          const instance = testInstance([node], {
            name: `${configuration}-8120fe`,
            shared: isShared,
          })
          const { metadata } = pod({ containers: [] }, { instance, node: node as NodeName })
          expect(metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
          expect(metadata.name.length).toBeLessThanOrEqual(253)
          for (const value of Object.values(metadata.labels ?? {})) expect(value).toMatch(label)
          expect(metadata.annotations?.['akri.sh/target-node']).toBe(node)
        },
      ),
    )
  })

  it('is made from any spec without an error', () => {
    fc.assert(
      fc.property(
        fc.object({
          key: fc.constantFrom(
            'containers',
            'resources',
            'limits',
            'affinity',
            'nodeAffinity',
            'x',
          ),
        }),
        (spec) => {
          pod(spec)
        },
      ),
    )
  })
})

describe('a broker Job', () => {
  const spec = {
    backoffLimit: 3,
    parallelism: 2,
    completions: 4,
    template: {
      metadata: { labels: { mine: 'x' }, annotations: { note: 'y' } },
      spec: { restartPolicy: 'Never', containers: [broker] },
    },
  }
  const job = brokerJob(
    { instance: shared, spec, hash: 'h', restarts: 0 },
    jobName(shared, testConfiguration()),
  )

  it('R52 R54 keeps its spec, has the Instance as owner, and has no node', () => {
    const resources = { limits: { 'akri.sh/cam-8120fe': '1', cpu: '2' } }
    expect(job).toMatchObject({
      metadata: {
        name: 'cam-8120fe-3-job',
        ownerReferences: [ownerReference('Instance', 'cam-8120fe')],
      },
      spec: {
        backoffLimit: 3,
        parallelism: 2,
        completions: 4,
        template: { spec: { containers: [{ resources }] } },
      },
    })
    expect(valueAt(job, 'spec', 'template', 'spec', 'affinity')).toBeUndefined()
  })

  it('C9 has a name that can be a label, however long the Instance is named', () => {
    const long = testInstance(['node-a'], { name: `${'x'.repeat(56)}-8120fe` })
    const name = jobName(long, testConfiguration())
    expect(name).toMatch(/^(?=.{1,63}$)x[-a-z0-9]*[a-z0-9]$/)
    expect(alternativeName(name, 'uid')).toMatch(/^(?=.{1,63}$)x[-a-z0-9]*[a-z0-9]$/)
    const other = testInstance(['node-a'], { name: `${'x'.repeat(56)}-a19705` })
    expect(jobName(other, testConfiguration())).not.toBe(name)
  })

  it('C5 has Pods with the labels of Services and of the template', () => {
    expect(valueAt(job, 'spec', 'template', 'metadata')).toEqual({
      labels: {
        mine: 'x',
        controller: 'akri.sh',
        'akri.sh/configuration': 'cam',
        'akri.sh/instance': 'cam-8120fe',
      },
      annotations: { note: 'y' },
    })
  })
})

describe('the Deployment of a Configuration', () => {
  it('R42 asks for any device of the Configuration, and selects only its own Pods', () => {
    const selector = { matchLabels: { app: 'another' } }
    const spec = { replicas: 3, selector, template: { spec: { containers: [broker] } } }
    const labels = {
      app: 'cam-deployment',
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
    }
    const resources = { limits: { 'akri.sh/cam': '1', cpu: '2' } }
    const deployment = brokerDeployment(testConfiguration(), spec, 'h')
    expect(deployment).toMatchObject({
      metadata: {
        name: 'cam-deployment',
        ownerReferences: [ownerReference('Configuration', 'cam')],
      },
      spec: { replicas: 3, template: { spec: { containers: [{ resources }] } } },
    })
    expect(valueAt(deployment, 'spec', 'selector', 'matchLabels')).toEqual(labels)
    expect(valueAt(deployment, 'spec', 'template', 'metadata', 'labels')).toEqual(labels)
  })
})
