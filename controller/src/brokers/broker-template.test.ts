import type { NodeName } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { alternativeName } from '../labels.js'
import { testConfiguration, testInstance } from '../testing/objects.js'
import { brokerDeployment, brokerJob, brokerPod, jobName } from './broker-template.js'

interface WithResources {
  readonly resources: {
    readonly limits?: object
    readonly requests?: object
    readonly claims?: object
  }
}

interface Spec extends WithResources {
  readonly containers: readonly [WithResources]
  readonly initContainers: readonly [WithResources]
  readonly affinity: {
    readonly podAntiAffinity?: object
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: {
        readonly nodeSelectorTerms: object
      }
    }
  }
  readonly template: { readonly metadata: { readonly labels: object }; readonly spec: Spec }
  readonly selector: { readonly matchLabels: object }
  readonly replicas: number
}

interface Template {
  readonly metadata: Record<string, Record<string, string>> & {
    name: string
    namespace: string
    ownerReferences: unknown[]
  }
  readonly spec: Spec
}

const NODE = 'node-a' as NodeName
const broker = {
  name: 'b',
  image: 'x',
  resources: { limits: { '{{PLACEHOLDER}}': '1', cpu: '2' }, requests: { '{{PLACEHOLDER}}': '1' } },
}
const shared = testInstance(['node-a'], { capacity: 2 })
const local = testInstance(['node-a'], { shared: false })
const owner = (kind: string, name: string) => ({
  apiVersion: 'akri.sh/v0',
  kind,
  name,
  uid: `uid-${name}`,
  controller: true,
  blockOwnerDeletion: true,
})

function pod(spec: object, { instance = shared, node = NODE, restarts = 0 } = {}): Template {
  return brokerPod({
    instance,
    node,
    spec: spec as Record<string, unknown>,
    hash: 'h',
    restarts,
  }) as Template
}

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
      ownerReferences: [owner('Instance', 'cam-8120fe')],
    })
    expect(pod({ containers: [broker] }, { instance: local }).metadata.name).toBe('cam-8120fe-pod')
  })

  it('R110 asks for its Instance instead of the placeholder, everywhere', () => {
    const { spec } = pod({
      containers: [broker],
      initContainers: [broker],
      resources: broker.resources,
    })
    const expected = {
      limits: { 'akri.sh/cam-8120fe': '1', cpu: '2' },
      requests: { 'akri.sh/cam-8120fe': '1' },
    }
    expect(spec.containers[0].resources).toEqual(expected)
    expect(spec.initContainers[0].resources).toEqual(expected)
    expect(spec.resources).toEqual(expected)
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
    const { spec: result } = pod(spec)
    expect(result).toMatchObject({
      hostNetwork: true,
      tolerations: spec.tolerations,
      newField: { x: 1 },
    })
    expect(result.containers[0].resources.claims).toEqual([{ name: 'gpu' }])
    expect(result.affinity.podAntiAffinity).toEqual({ x: 1 })
  })

  it('R109 C9 is pinned to its node, whatever other affinity its spec has', () => {
    const pin = { key: 'metadata.name', operator: 'In', values: ['node-a'] }
    const terms = (affinity?: object) =>
      pod({ containers: [], ...(affinity ? { affinity } : {}) }).spec.affinity.nodeAffinity
        .requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
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
  ) as Template

  it('R52 R54 keeps its spec, has the Instance as owner, and has no node', () => {
    expect(job.metadata.name).toBe('cam-8120fe-3-job')
    expect(job.metadata.ownerReferences).toEqual([owner('Instance', 'cam-8120fe')])
    expect(job.spec).toMatchObject({ backoffLimit: 3, parallelism: 2, completions: 4 })
    expect(job.spec.template.spec.affinity).toBeUndefined()
    expect(job.spec.template.spec.containers[0].resources.limits).toEqual({
      'akri.sh/cam-8120fe': '1',
      cpu: '2',
    })
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
    expect(job.spec.template.metadata).toEqual({
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
    const deployment = brokerDeployment(testConfiguration(), spec, 'h') as unknown as Template
    expect(deployment.metadata.name).toBe('cam-deployment')
    expect(deployment.metadata.ownerReferences).toEqual([owner('Configuration', 'cam')])
    expect(deployment.spec.replicas).toBe(3)
    expect(deployment.spec.template.spec.containers[0].resources.limits).toEqual({
      'akri.sh/cam': '1',
      cpu: '2',
    })
    expect(deployment.spec.template.metadata.labels).toEqual(deployment.spec.selector.matchLabels)
    expect(deployment.spec.selector.matchLabels).toEqual({
      app: 'cam-deployment',
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
    })
  })
})
