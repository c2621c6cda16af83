import { readFile } from 'node:fs/promises'
import { CONFIGURATIONS, INSTANCES, parseConfiguration } from '@akrijs/api'
import { Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeOnCluster, OwnNamespace, refusal, uniqueName } from './support/cluster.js'
import { checksRules } from './support/custom-resources.js'
import { createInstance } from './support/instances.js'

const API_VERSION = 'akri.sh/v0'

/** A remark of the API server, which checks no rule where a type is wrong. */
const RULES_LEFT_OUT = /<nil>: Invalid value: (null|"null"): some validation rules were not checked/

describeOnCluster('the custom resources on an API server', () => {
  let home: OwnNamespace
  let configurations: Resource
  let instances: Resource
  let rules: boolean

  beforeAll(async () => {
    home = await OwnNamespace.make()
    configurations = new Resource(home.client, CONFIGURATIONS)
    instances = new Resource(home.client, INSTANCES)
    rules = await checksRules(home.client)
  })

  afterAll(() => home.remove())

  const created = (spec: object = {}) => createInstance(home, spec)

  const configurationOf = (spec: object, name = uniqueName()) => ({
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata: { name, namespace: home.name },
    spec: { discoveryHandler: { name: 'debugEcho' }, ...spec },
  })

  describe('the schema of a Configuration', () => {
    const property = (fields: object) => ({
      discoveryHandler: { name: 'debugEcho', discoveryProperties: [{ name: 'KEY', ...fields }] },
    })
    const PROPERTIES = 'discoveryHandler.discoveryProperties'
    const reference = { name: 'secret', key: 'password' }
    const pod = { containers: [{ name: 'a', image: 'b' }], anything: { deep: [1] } }
    const rolling = (template: string, maxUnavailable: unknown, type = 'RollingUpdate') => ({
      brokerSpec: { [template]: {}, updateStrategy: { type, rollingUpdate: { maxUnavailable } } },
    })

    it.each([
      ['no discovery handler', { discoveryHandler: undefined }, 'discoveryHandler'],
      ['a discovery handler without a name', { discoveryHandler: {} }, 'discoveryHandler.name'],
      [
        'an empty name of a discovery handler',
        { discoveryHandler: { name: '' } },
        'discoveryHandler.name',
      ],
      ['a capacity of 0', { capacity: 0 }, 'capacity'],
      ['a capacity below 0', { capacity: -1 }, 'capacity'],
      ['a capacity of 10001', { capacity: 10_001 }, 'capacity'],
      ['a capacity that is a text', { capacity: '1' }, 'capacity'],
      [
        'a source without a key',
        property({ valueFrom: { secretKeyRef: { name: 'secret' } } }),
        `${PROPERTIES}.valueFrom.secretKeyRef.key`,
      ],
      [
        'a Secret that cannot have its name',
        property({ valueFrom: { secretKeyRef: { ...reference, name: 'A_b' } } }),
        `${PROPERTIES}.valueFrom.secretKeyRef.name`,
      ],
      [
        'a ConfigMap in a namespace that cannot have its name',
        property({ valueFrom: { configMapKeyRef: { ...reference, namespace: 'a.b' } } }),
        `${PROPERTIES}.valueFrom.configMapKeyRef.namespace`,
      ],
      [
        'a property named as no variable can be',
        property({ name: '1-a', value: 'a' }),
        `${PROPERTIES}.name`,
      ],
      ['a property without a value', property({}), PROPERTIES],
      ['a property whose source is null', property({ valueFrom: null }), PROPERTIES],
      ['a property with an unknown field', property({ valeu: 'a' }), PROPERTIES],
      ['a broker property that is no text', { brokerProperties: { A: 5 } }, 'brokerProperties.A'],
      ...[0, '0%', '101%', '5', 1.5].map((limit): [string, object, string] => [
        `maxUnavailable ${JSON.stringify(limit)}`,
        rolling('brokerPodSpec', limit),
        'brokerSpec.updateStrategy.rollingUpdate.maxUnavailable',
      ]),
    ])('refuses %s, and names the field', async (_what, spec, where) => {
      const error = await refusal(configurations.create(home.name, configurationOf(spec)))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid', kind: 'terminal' })
      // Older servers leave out the indexes of lists.
      expect(error.answer.replace(/\[\d+\]/g, '')).toContain(`spec.${where}: `)
      expect(error.answer.replace(RULES_LEFT_OUT, '')).not.toContain('<nil>')
    })

    const KINDS = 'give one of brokerPodSpec, brokerJobSpec and brokerDeploymentSpec'
    const VALUES = 'give one of value and valueFrom'
    const SOURCES = 'give one of secretKeyRef and configMapKeyRef'
    const OFFERS =
      'offer the resource that the broker asks for: instance or both with brokerPodSpec and ' +
      'brokerJobSpec, configuration or both with brokerDeploymentSpec'
    const VARIABLES = 'each name names an environment variable, and is not empty and without ='
    const FOR_PODS = 'leave updateStrategy.rollingUpdate out: it is for brokerPodSpec'

    const broken: readonly [what: string, spec: object, sentence: string][] = [
      ['a Pod and a Job', { brokerSpec: { brokerPodSpec: {}, brokerJobSpec: {} } }, KINDS],
      [
        'a Job and a Deployment',
        { brokerSpec: { brokerJobSpec: {}, brokerDeploymentSpec: { template: {} } } },
        KINDS,
      ],
      [
        'a Job and a Deployment where the Pod is null',
        { brokerSpec: { brokerPodSpec: null, brokerJobSpec: {}, brokerDeploymentSpec: {} } },
        KINDS,
      ],
      ['maxUnavailable of a Job', rolling('brokerJobSpec', 1), FOR_PODS],
      ['maxUnavailable of a Deployment', rolling('brokerDeploymentSpec', 1), FOR_PODS],
      [
        'maxUnavailable with OnDelete',
        rolling('brokerPodSpec', 1, 'OnDelete'),
        'leave rollingUpdate out, or write the type RollingUpdate',
      ],
      [
        'a property with a value and a source',
        property({ value: 'a', valueFrom: { secretKeyRef: reference } }),
        VALUES,
      ],
      [
        'a property with two sources',
        property({ valueFrom: { secretKeyRef: reference, configMapKeyRef: reference } }),
        SOURCES,
      ],
      [
        'a Pod without its resource',
        { offer: 'configuration', brokerSpec: { brokerPodSpec: {} } },
        OFFERS,
      ],
      [
        'a Job without its resource',
        { offer: 'configuration', brokerSpec: { brokerJobSpec: {} } },
        OFFERS,
      ],
      [
        'a Deployment without its resource',
        { offer: 'instance', brokerSpec: { brokerDeploymentSpec: {} } },
        OFFERS,
      ],
      ['a property with an empty source', property({ valueFrom: {} }), SOURCES],
      ['a broker property without a name', { brokerProperties: { '': 'a' } }, VARIABLES],
      ['a broker property with = in its name', { brokerProperties: { 'A=B': 'c' } }, VARIABLES],
    ]

    it.for(broken)('refuses %s in one sentence', async ([_what, spec, sentence], { skip }) => {
      skip(!rules, 'needs Kubernetes 1.25 or newer, which checks rules of custom resources')
      // No rule refuses what the programs take.
      expect(parseConfiguration(configurationOf(spec, 'x')).ok).toBe(false)
      const error = await refusal(configurations.create(home.name, configurationOf(spec)))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid', kind: 'terminal' })
      expect(error.message).toContain(sentence)
      expect(error.message).not.toContain('<nil>')
    })

    const withoutRule: readonly [what: string, spec: object][] = [
      [
        'two properties of one name',
        {
          discoveryHandler: {
            name: 'debugEcho',
            discoveryProperties: ['a', 'b'].map((value) => ({ name: 'KEY', value })),
          },
        },
      ],
      [
        'more than 64 Secrets and ConfigMaps',
        {
          discoveryHandler: {
            name: 'debugEcho',
            discoveryProperties: Array.from({ length: 65 }, (_, i) => ({
              name: `KEY_${i}`,
              valueFrom: { secretKeyRef: { ...reference, name: `secret-${i}` } },
            })),
          },
        },
      ],
      ['NUL in the name of a broker property', { brokerProperties: { 'A\0B': 'c' } }],
      [
        'a container with a resource that `offer` leaves out',
        {
          offer: 'configuration',
          brokerSpec: {
            brokerDeploymentSpec: {
              template: {
                spec: { containers: [{ resources: { limits: { 'akri.sh/x-123456': 1 } } }] },
              },
            },
          },
        },
      ],
    ]

    it.each(withoutRule)('leaves %s to the programs, for a written reason', async (what, spec) => {
      const decision = new URL('../../docs/decisions/0011-kubernetes-versions.md', import.meta.url)
      expect(await readFile(decision, 'utf8')).toContain(`| ${what} |`)
      const configuration = configurationOf(spec, 'x')
      expect(parseConfiguration(configuration).ok).toBe(false)
      await configurations.create(home.name, { ...configuration, metadata: { name: uniqueName() } })
    })

    it('refuses a name that would make a name of a resource too long', async () => {
      const error = await refusal(
        configurations.create(home.name, configurationOf({}, 'x'.repeat(57))),
      )
      expect(error).toMatchObject({ status: 422 })
      expect(error.message).toContain('metadata.name')
      await configurations.create(home.name, configurationOf({}, 'x'.repeat(56)))
    })

    it.each([
      ['a value that is null', property({ value: null })],
      [
        'a value that is null, with a Secret',
        property({ value: null, valueFrom: { secretKeyRef: reference } }),
      ],
      ['a Pod with its resource', { offer: 'instance', brokerSpec: { brokerPodSpec: pod } }],
      [
        'a Deployment with its resource',
        { offer: 'configuration', brokerSpec: { brokerDeploymentSpec: {}, brokerPodSpec: null } },
      ],
      ['an offer without a broker', { offer: 'configuration', brokerSpec: null }],
      [
        'a Secret',
        property({
          valueFrom: { secretKeyRef: { ...reference, namespace: 'other', optional: true } },
        }),
      ],
      ['a ConfigMap', property({ valueFrom: { configMapKeyRef: reference } })],
      ['no properties', { discoveryHandler: { name: 'debugEcho', discoveryProperties: null } }],
      [
        'a Pod where the others are null',
        { brokerSpec: { brokerPodSpec: pod, brokerJobSpec: null, brokerDeploymentSpec: null } },
      ],
      [
        'a Job where the Pod is null',
        { brokerSpec: { brokerPodSpec: null, brokerJobSpec: { template: {} } } },
      ],
      [
        'a Deployment where the Job is null',
        { brokerSpec: { brokerJobSpec: null, brokerDeploymentSpec: { template: {} } } },
      ],
      ['brokers that are null', { brokerSpec: { brokerPodSpec: null, brokerJobSpec: null } }],
      ['a Job without a strategy', { brokerSpec: { brokerJobSpec: {}, updateStrategy: null } }],
      ['a number of maxUnavailable', rolling('brokerPodSpec', 25)],
      ['a percentage of maxUnavailable', rolling('brokerPodSpec', '25%')],
    ])('R51 R59 accepts %s and keeps it', async (_what, spec) => {
      expect(await configurations.create(home.name, configurationOf(spec))).toMatchObject({
        spec: JSON.parse(
          JSON.stringify(spec).replaceAll(',"discoveryProperties":null', ''),
        ) as object,
      })
    })

    it('has defaults', async () => {
      expect(await configurations.create(home.name, configurationOf({}))).toMatchObject({
        spec: { capacity: 1, discoveryHandler: { name: 'debugEcho', discoveryDetails: '' } },
        status: { observedGeneration: 0, conditions: [{ type: 'Ready', status: 'Unknown' }] },
      })
    })

    it('has a status subresource, whose writes change the status only', async () => {
      const object = configurationOf({})
      const key = home.key(object.metadata.name)
      const status = { devices: 3, conditions: [condition('Ready', 'True')] }
      const none = { status: { conditions: [{ reason: 'Pending' }] } }
      expect(await configurations.create(home.name, { ...object, status })).toMatchObject(none)
      await configurations.patch(key, 'merge', { status })
      expect(await configurations.get(key)).toMatchObject(none)
      await configurations.patch(
        key,
        'merge',
        { status, spec: { capacity: 9 } },
        { subresource: 'status' },
      )
      expect(await configurations.get(key)).toMatchObject({
        status,
        spec: { capacity: 1 },
        metadata: { generation: 1 },
      })
    })
  })

  describe('the schema of an Instance', () => {
    it('has defaults', async () => {
      const { object } = await created()
      expect(object.spec).toMatchObject({
        nodes: [],
        deviceUsage: {},
        brokerProperties: {},
        shared: false,
      })
    })

    it('refuses a node that it already has', async () => {
      const { key } = await created({ nodes: ['node-a'] })
      const join = (node: string) =>
        instances.patch(key, 'json', [{ op: 'add', path: '/spec/nodes/-', value: node }])
      expect(await join('node-b')).toMatchObject({ spec: { nodes: ['node-a', 'node-b'] } })
      const error = await refusal(join('node-b'))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid' })
      expect(error.message).toContain('Duplicate')
    })
  })
})

function condition(type: string, status: string) {
  return {
    type,
    status,
    reason: 'Reason',
    message: 'message',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  }
}
