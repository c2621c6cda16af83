import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countReads } from '../../test/support/reads.js'
import { parseConfiguration } from './configuration-schema.js'

const minimal = {
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  metadata: { name: 'lab' },
  spec: { discoveryHandler: { name: 'udev' } },
}

function withSpec(spec: object, metadata: object = {}) {
  return {
    ...minimal,
    metadata: { ...minimal.metadata, ...metadata },
    spec: { ...minimal.spec, ...spec },
  }
}

function problemsOf(object: unknown) {
  const parsed = parseConfiguration(object)
  return parsed.ok ? [] : parsed.problems
}

describe('a Configuration', () => {
  it('R58 gets defaults for absent fields', () => {
    expect(parseConfiguration(minimal)).toEqual({
      ok: true,
      configuration: {
        name: 'lab',
        namespace: 'default',
        labels: {},
        annotations: {},
        spec: {
          discoveryHandler: { name: 'udev', discoveryDetails: '', discoveryProperties: [] },
          capacity: 1,
          brokerProperties: {},
        },
      },
    })
  })

  it('R51 R59 reads null as absent, because API servers return null', () => {
    const nothing = {
      discoveryHandler: { name: 'udev', discoveryDetails: null, discoveryProperties: null },
      capacity: null,
      brokerSpec: { brokerPodSpec: null, brokerJobSpec: null },
      instanceServiceSpec: null,
      configurationServiceSpec: null,
      brokerProperties: null,
    }
    expect(parseConfiguration(withSpec(nothing))).toEqual(parseConfiguration(minimal))
  })

  it('R58 R59 keeps all fields of Pod, Job and Service specs', () => {
    const spec = {
      brokerSpec: { brokerJobSpec: { template: { 'x-new': [1, null, { a: false }] } } },
      instanceServiceSpec: { type: 'ClusterIP', ports: [{ port: 80 }] },
      configurationServiceSpec: { anything: {} },
    }
    const parsed = parseConfiguration(withSpec(spec))
    expect(parsed.ok && parsed.configuration.spec).toMatchObject(spec)
  })

  it.each([
    ['brokerPodSpec', 'brokerJobSpec'],
    ['brokerPodSpec', 'brokerDeploymentSpec'],
    ['brokerJobSpec', 'brokerDeploymentSpec'],
  ])('R50 has %s or %s as its broker, not both', (one, other) => {
    expect(problemsOf(withSpec({ brokerSpec: { [one]: {}, [other]: {} } }))).toEqual([
      {
        path: 'spec.brokerSpec',
        message: expect.stringContaining(`give one of ${one} and ${other}`),
      },
    ])
  })

  it('has an update strategy of its broker, by default rolling', () => {
    const brokerSpec = (updateStrategy: unknown) => {
      const parsed = parseConfiguration(
        withSpec({ brokerSpec: { brokerPodSpec: {}, updateStrategy } }),
      )
      return parsed.ok ? parsed.configuration.spec.brokerSpec : parsed.problems
    }
    expect(brokerSpec(null)).toEqual({ brokerPodSpec: {} })
    expect(brokerSpec({})).toEqual({ brokerPodSpec: {}, updateStrategy: { type: 'RollingUpdate' } })
    expect(brokerSpec({ type: 'OnDelete' })).toEqual({
      brokerPodSpec: {},
      updateStrategy: { type: 'OnDelete' },
    })
    expect(brokerSpec({ type: 'Recreate' })).toEqual([
      {
        path: 'spec.brokerSpec.updateStrategy.type',
        message: expect.stringContaining('RollingUpdate or OnDelete'),
      },
    ])
  })

  it('says how many broker Pods a change may make unavailable at once', () => {
    const brokerSpec = (updateStrategy: object, template = 'brokerPodSpec') => {
      const parsed = parseConfiguration(
        withSpec({ brokerSpec: { [template]: {}, updateStrategy } }),
      )
      return parsed.ok ? parsed.configuration.spec.brokerSpec?.updateStrategy : parsed.problems
    }
    const type = 'RollingUpdate'
    for (const maxUnavailable of [1, 25, '1%', '25%', '100%']) {
      const rollingUpdate = { maxUnavailable }
      expect(brokerSpec({ rollingUpdate })).toEqual({ type, rollingUpdate })
    }
    for (const rollingUpdate of [{}, { maxUnavailable: null }])
      expect(brokerSpec({ rollingUpdate })).toEqual({ type, rollingUpdate: {} })
    expect(brokerSpec({ rollingUpdate: null })).toEqual({ type })
    const path = 'spec.brokerSpec.updateStrategy.rollingUpdate'
    for (const maxUnavailable of [0, -1, 1.5, '0%', '101%', '5', '025%', 'all', ''])
      expect(brokerSpec({ rollingUpdate: { maxUnavailable } })).toEqual([
        {
          path: `${path}.maxUnavailable`,
          message: expect.stringContaining('a percentage from 1% to 100%'),
        },
      ])
    expect(brokerSpec({ rollingUpdate: { maxSurge: 1 } })).toEqual([
      { path: `${path}.maxSurge`, message: expect.stringContaining('no such field') },
    ])
    const rollingUpdate = { maxUnavailable: 2 }
    expect(brokerSpec({ type: 'OnDelete', rollingUpdate })).toEqual([
      { path, message: expect.stringContaining('write the type RollingUpdate') },
    ])
    for (const template of ['brokerJobSpec', 'brokerDeploymentSpec'])
      expect(brokerSpec({ rollingUpdate }, template)).toEqual([
        { path, message: expect.stringContaining(`the broker is a ${template}`) },
      ])
  })

  it('offers both resources by default, or the resource that its broker asks for', () => {
    const offer = (spec: object) => {
      const parsed = parseConfiguration(withSpec(spec))
      return parsed.ok ? parsed.configuration.spec.offer : parsed.problems
    }
    expect([offer({}), offer({ offer: null })]).toEqual([undefined, undefined])
    const brokers = { brokerPodSpec: 'instance', brokerJobSpec: 'instance' }
    for (const [template, fits] of Object.entries({
      ...brokers,
      brokerDeploymentSpec: 'configuration',
    }))
      for (const asked of ['both', 'configuration', 'instance']) {
        const problem = [{ path: 'spec.offer', message: expect.stringContaining(template) }]
        const expected = asked === 'both' || asked === fits ? asked : problem
        expect(offer({ offer: asked, brokerSpec: { [template]: {} } })).toEqual(expected)
      }
  })

  it('refuses an offer without the resources that containers name', () => {
    const name = String(Reflect.get(Reflect.get(withSpec({}), 'metadata'), 'name'))
    const pod = (resource: string, where = 'containers', list = 'limits') => ({
      [where]: [{}, { resources: { [list]: { cpu: 1, [resource]: 1 } } }],
    })
    const template = (spec: object) => ({ template: { spec } })
    const [both, own] = ['write both', 'write both or']
    const cases: [offer: string, brokerSpec: object, start: string | undefined][] = [
      ['instance', { brokerPodSpec: pod('{{PLACEHOLDER}}') }, undefined],
      ['instance', { brokerPodSpec: pod(`akri.sh/${name}-8120fe`) }, undefined],
      ['instance', { brokerPodSpec: pod(`akri.sh/${name}`) }, `${both}: `],
      ['instance', { brokerPodSpec: pod(`akri.sh/${name}`, 'initContainers') }, `${both}: `],
      ['instance', { brokerJobSpec: template(pod(`akri.sh/${name}`)) }, `${both}: `],
      ['instance', { brokerPodSpec: { resources: { limits: { [`akri.sh/${name}`]: 1 } } } }, both],
      ['instance', { brokerPodSpec: pod('akri.sh/other') }, undefined],
      ['instance', { brokerPodSpec: pod(name) }, undefined],
      ['configuration', { brokerPodSpec: pod(`akri.sh/${name}`) }, `${both}: `],
      ['configuration', { brokerPodSpec: pod('cpu') }, `${own} instance: `],
      ['configuration', { brokerDeploymentSpec: template(pod(`akri.sh/${name}`)) }, undefined],
      [
        'configuration',
        { brokerDeploymentSpec: template(pod(`akri.sh/${name}-8120fe`, 'containers', 'requests')) },
        `${both}: brokerDeploymentSpec with akri.sh/${name}-8120fe asks for the resource of the`,
      ],
      ['both', { brokerDeploymentSpec: template(pod(`akri.sh/${name}-8120fe`)) }, undefined],
      // Values of any type: they belong to Kubernetes.
      [
        'configuration',
        { brokerDeploymentSpec: { template: { spec: { containers: 5 } } } },
        undefined,
      ],
      ['instance', { brokerPodSpec: { containers: [{ resources: { limits: [] } }] } }, undefined],
    ]
    for (const [offer, brokerSpec, start] of cases) {
      const parsed = parseConfiguration(withSpec({ offer, brokerSpec }))
      const problem = { path: 'spec.offer', message: expect.stringMatching(`^${start}`) }
      expect(parsed.ok ? undefined : parsed.problems, JSON.stringify(brokerSpec)).toEqual(
        start === undefined ? undefined : [problem],
      )
    }
  })

  it.each([
    ['spec.offer', withSpec({ offer: 'none' }), 'it is "none"'],
    ['spec.capacity', withSpec({ capacity: 0 }), 'write at least 1; it is 0'],
    ['spec.capacity', withSpec({ capacity: -1 }), 'it is -1'],
    ['spec.capacity', withSpec({ capacity: 1.5 }), 'it is 1.5'],
    ['spec.capacity', withSpec({ capacity: '2' }), 'it is "2"'],
    ['spec.capacity', withSpec({ capacity: 10_001 }), 'write at most 10000'],
    ['spec.discoveryHandler.name', withSpec({ discoveryHandler: {} }), 'it is missing'],
    [
      'spec.discoveryHandler.name',
      withSpec({ discoveryHandler: { name: 'x'.repeat(64) } }),
      'at most 63 characters',
    ],
    [
      'spec.brokerProperties',
      withSpec({ brokerProperties: { AB: 'ö'.repeat(8191), B: '' } }),
      'at most 16384 bytes, names and values together; there are 16385',
    ],
    ['spec', { ...minimal, spec: undefined }, 'it is missing'],
    ['spec.brokerProperties.PORT', withSpec({ brokerProperties: { PORT: 80 } }), 'it is 80'],
    ['metadata.name', withSpec({}, { name: 'Lab' }), 'lower-case letters'],
    ['metadata.name', withSpec({}, { name: 'a'.repeat(57) }), 'at most 56 characters'],
    ['metadata.namespace', withSpec({}, { namespace: '../x' }), 'lower-case letters'],
    ['apiVersion', { ...minimal, apiVersion: 'akri.sh/v1' }, 'akri.sh/v0'],
  ])('reports a mistake at %s (%#)', (path, object, message) => {
    expect(problemsOf(object)).toEqual([{ path, message: expect.stringContaining(message) }])
  })

  it('can have broker properties up to their bound', () => {
    expect(problemsOf(withSpec({ brokerProperties: { AB: 'ö'.repeat(8191) } }))).toEqual([])
  })

  it.each([
    [{ spec: { ...minimal.spec, capcity: 2 } }, 'spec.capcity', 'did you mean capacity?'],
    [
      { spec: { discoveryHandler: { name: 'udev', discoverydetails: '' } } },
      'spec.discoveryHandler.discoverydetails',
      'did you mean discoveryDetails?',
    ],
    [
      { spec: { ...minimal.spec, brokerSpec: { brokerPod: {} } } },
      'spec.brokerSpec.brokerPod',
      'there is no such field',
    ],
    [
      { spec: { ...minimal.spec, discoveryDetails: '' } },
      'spec.discoveryDetails',
      'there is no such field at this place',
    ],
  ])('refuses an unknown field (%#)', (wrong, path, message) => {
    expect(problemsOf({ ...minimal, ...wrong })).toEqual([
      { path, message: expect.stringContaining(message) },
    ])
  })

  const withProperty = (...discoveryProperties: object[]) =>
    withSpec({ discoveryHandler: { name: 'h', discoveryProperties } })
  const ref = { name: 'lab', key: 'token' }

  it.each([
    withProperty({ name: 'password_default', value: 4711 }),
    withSpec({ brokerProperties: { CAM_PASSWORD: 4711 } }),
  ])('does not show the value of a password (%#)', (object) => {
    const text = JSON.stringify(problemsOf(object))
    expect(text).toMatch(/write a text, in quotes; it is \*{3}/)
    expect(text).not.toMatch(/4711/)
  })

  it('accepts every form of a discovery property', () => {
    const properties = [
      { name: 'a', value: '' },
      { name: '_b', valueFrom: { secretKeyRef: { ...ref, namespace: 'site', optional: true } } },
      { name: 'C1', valueFrom: { configMapKeyRef: ref } },
    ]
    const parsed = parseConfiguration(withProperty(...properties))
    expect(parsed.ok && parsed.configuration.spec.discoveryHandler.discoveryProperties).toEqual(
      properties,
    )
  })

  it('accepts many properties from few objects', () => {
    const properties = Array.from({ length: 1000 }, (_, index) => ({
      name: `p${index}`,
      valueFrom: { secretKeyRef: { ...ref, name: `s${index % 64}` } },
    }))
    expect(parseConfiguration(withProperty(...properties)).ok).toBe(true)
  })

  it.each([
    ['[0].name', withProperty({ name: 'a-b', value: '' }), 'write a letter or _'],
    [
      '[0]',
      withProperty({ name: 'a', value: '', valueFrom: { secretKeyRef: ref } }),
      'give one of value and valueFrom',
    ],
    [
      '[0].valueFrom',
      withProperty({ name: 'a', valueFrom: {} }),
      'give one of secretKeyRef and configMapKeyRef',
    ],
    [
      '[0].valueFrom.secretKeyRef.key',
      withProperty({ name: 'a', valueFrom: { secretKeyRef: { name: 'x' } } }),
      'missing',
    ],
    [
      '[0].valueFrom.secretKeyRef.name',
      withProperty({ name: 'a', valueFrom: { secretKeyRef: { ...ref, name: 'x/y' } } }),
      'write the name of an object',
    ],
    [
      '[0].valueFrom.configMapKeyRef.namespace',
      withProperty({ name: 'a', valueFrom: { configMapKeyRef: { ...ref, namespace: 'a/b' } } }),
      'write lower-case letters, digits and -',
    ],
    [
      '',
      withProperty(
        ...Array.from({ length: 65 }, (_, index) => ({
          name: `p${index}`,
          valueFrom: { secretKeyRef: { ...ref, name: `s${index}` } },
        })),
      ),
      'refer to at most 64 Secrets and ConfigMaps',
    ],
    [
      '[1].name',
      withProperty({ name: 'a', value: '' }, { name: 'a', value: 'b' }),
      'another property has this name',
    ],
  ])('refuses a discovery property that is wrong at %s', (at, object, message) => {
    const path = `spec.discoveryHandler.discoveryProperties${at}`
    expect(problemsOf(object)).toEqual([{ path, message: expect.stringContaining(message) }])
  })

  it('never throws, for any value', () => {
    const leaf = fc.anything({
      withNullPrototype: true,
      withBigInt: true,
      withDate: true,
      withMap: true,
    })
    const nearly = fc.record(
      {
        apiVersion: fc.constant('akri.sh/v0'),
        kind: fc.constant('Configuration'),
        metadata: fc.oneof(
          leaf,
          fc.record({ name: fc.oneof(fc.constant('a'), leaf), labels: leaf }),
        ),
        spec: fc.oneof(
          leaf,
          fc.record({
            discoveryHandler: fc.record({ name: leaf, discoveryProperties: leaf }),
            capacity: leaf,
            brokerSpec: leaf,
          }),
        ),
      },
      { requiredKeys: [] },
    )
    fc.assert(fc.property(fc.oneof(leaf, nearly), (object) => void parseConfiguration(object)))
  })

  it('refuses an endless document', () => {
    const pod: Record<string, unknown> = {}
    pod.itself = pod
    expect(problemsOf(withSpec({ brokerSpec: { brokerPodSpec: pod } }))).toEqual([
      { path: '', message: 'it is nested more than 100 deep' },
    ])
  })

  const many = Array.from({ length: 10_000 }, (_, index) => index)
  const numbers = Object.fromEntries(many.map((index) => [`k${index}`, 1]))

  it.each<[string, object, string]>([
    ['labels', withSpec({}, { labels: numbers }), 'at most 1000 entries'],
    ['broker properties', withSpec({ brokerProperties: numbers }), 'at most 1000 entries'],
    ['discovery properties', withProperty(...many.map(() => ({}))), 'at most 1000 properties'],
    ['unknown fields', withSpec(numbers), 'no such field'],
  ])('bounds the problems of very many %s, and reads each a few times', (_what, wrong, message) => {
    const { value, reads } = countReads(wrong)
    const problems = problemsOf(value)
    expect(problems.length).toBeLessThanOrEqual(100)
    expect(problems[0]?.message).toContain(message)
    expect(reads()).toBeLessThan(10 * many.length)
  })
})
