import { readFileSync } from 'node:fs'
import path from 'node:path'
import { systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { configurationFindings } from '../../api/src/configuration-problems.js'
import { BUNDLED_TYPES } from '../../api/src/generated/bundled-types.js'
import debugEcho from '../../handlers/debug-echo/src/index.js'
import onvif from '../../handlers/onvif/src/index.js'
import opcua from '../../handlers/opcua/src/index.js'
import udev from '../../handlers/udev/src/index.js'
import { detailsProblems } from '../../webhook/src/review/handler-details.js'
import { CHART, type KubernetesObject, missingForChart, render, type Values } from './chart.js'

// The sample Configurations, checked by their readers: the webhook and the handlers.

interface Configuration extends KubernetesObject {
  readonly spec: {
    readonly discoveryHandler: {
      readonly name: string
      readonly discoveryDetails: string
      readonly discoveryProperties?: unknown
    }
    readonly capacity: number
    readonly brokerSpec?: unknown
    readonly brokerProperties?: Readonly<Record<string, string>>
    readonly instanceServiceSpec?: unknown
    readonly configurationServiceSpec?: unknown
  }
}

const EXAMPLES = path.join(CHART, '../../manifests/examples')
const handlers = new Map([debugEcho, onvif, opcua, udev].map((handler) => [handler.name, handler]))
const isConfiguration = (object: KubernetesObject): object is Configuration =>
  object.kind === 'Configuration'
const detailsOf = ({ spec }: Configuration) => load(spec.discoveryHandler.discoveryDetails)
const problemsOf = async (configuration: Configuration) => [
  ...configurationFindings(configuration, { types: BUNDLED_TYPES, usedIn: 'cluster' }),
  ...(await detailsProblems(configuration, handlers, systemClock)),
]

/** The one Configuration of these values. */
async function configurationOf(handler: string, values: Values): Promise<Configuration> {
  const objects = await render({ [handler]: { configuration: { enabled: true, ...values } } })
  const [configuration = expect.fail('there is no Configuration'), ...others] =
    objects.filter(isConfiguration)
  expect(others).toEqual([])
  return configuration
}

const videoRule = 'SUBSYSTEM=="video4linux", ENV{ID_V4L_CAPABILITIES}=="*:capture:*"'
const reason = missingForChart === undefined ? '' : ` (${missingForChart})`
const title = `the Configurations of the chart${reason}`

describe.skipIf(missingForChart !== undefined)(title, () => {
  it('are absent by default', async () => {
    expect((await render()).filter(isConfiguration)).toEqual([])
  })

  it.each([
    ['udev', 'udev.yaml', { discoveryDetails: { udevRules: [videoRule], permissions: 'rw' } }],
    ['onvif', 'onvif.yaml', {}],
    [
      'opcua',
      'opcua.yaml',
      { discoveryDetails: { discoveryUrls: ['opc.tcp://plc-1.example:4840/'] } },
    ],
    ['debugEcho', 'debug-echo.yaml', {}],
  ])('R97 can equal the example of %s', async (handler, file, values) => {
    const example = load(readFileSync(path.join(EXAMPLES, file), 'utf8')) as Configuration
    const configuration = await configurationOf(handler, values)
    expect(detailsOf(configuration)).toEqual(detailsOf(example))
    const { discoveryHandler, ...spec } = configuration.spec
    expect({ ...spec, handler: discoveryHandler.name, name: configuration.metadata.name }).toEqual({
      capacity: example.spec.capacity,
      handler: example.spec.discoveryHandler.name,
      name: example.metadata.name,
    })
    expect(await problemsOf(configuration)).toEqual([])
  })

  it('R97 work as docs/helm.md shows', async () => {
    const page = readFileSync(path.join(CHART, '../../../docs/helm.md'), 'utf8')
    const [, values = expect.fail('it shows no values')] = /```yaml\n(.*?)```/s.exec(page) ?? []
    const objects = await render(load(values) as Values)
    const configurations = objects.filter(isConfiguration)
    expect(configurations.map(({ metadata }) => metadata.name).sort()).toEqual([
      'akri-onvif',
      'cameras',
    ])
    for (const configuration of configurations) expect(await problemsOf(configuration)).toEqual([])
    expect(objects.some(({ metadata }) => metadata.name === 'akri-onvif-discovery-daemonset')).toBe(
      true,
    )
  })

  it('R97 of udev have the configured values', async () => {
    const configuration = await configurationOf('udev', {
      name: 'lab.cameras',
      capacity: 10_000,
      brokerProperties: { ROOM: 'lab', 'a b': 'it\'s "5"' },
      discoveryDetails: {
        udevRules: ['KERNEL=="video[0-9]*", ATTR{name}!="Loop{back}"', videoRule],
        groupRecursive: true,
      },
      brokerPod: {
        image: {
          repository: 'registry.example:5000/camera-broker',
          tag: '1.0',
          pullPolicy: 'Always',
        },
        env: { MODE: 'fast', RATE: 30 },
        envFrom: { secretRef: ['cameras'], configMapRef: ['settings'] },
        securityContext: { runAsNonRoot: true },
        resources: { memoryRequest: '10Mi', cpuLimit: 2 },
        volumes: [{ name: 'data', emptyDir: {} }],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
      createConfigurationService: false,
      instanceService: { type: 'NodePort', port: 81, targetPort: 'http', portName: 'h'.repeat(63) },
    })
    expect(await problemsOf(configuration)).toEqual([])
    expect(configuration.metadata).toMatchObject({ name: 'lab.cameras', namespace: 'akri' })
    expect(detailsOf(configuration)).toEqual({
      udevRules: ['KERNEL=="video[0-9]*", ATTR{name}!="Loop{back}"', videoRule],
      groupRecursive: true,
    })
    expect(configuration.spec).toMatchObject({
      capacity: 10_000,
      brokerProperties: { ROOM: 'lab', 'a b': 'it\'s "5"' },
    })
    expect(configuration.spec.instanceServiceSpec).toEqual({
      type: 'NodePort',
      ports: [{ name: 'h'.repeat(63), port: 81, targetPort: 'http', protocol: 'TCP' }],
    })
    expect(configuration.spec).not.toHaveProperty('configurationServiceSpec')
    expect(configuration.spec.brokerSpec).toEqual({
      brokerPodSpec: {
        containers: [
          {
            name: 'lab-cameras-broker',
            image: 'registry.example:5000/camera-broker:1.0',
            imagePullPolicy: 'Always',
            env: [
              { name: 'MODE', value: 'fast' },
              { name: 'RATE', value: '30' },
            ],
            envFrom: [{ secretRef: { name: 'cameras' } }, { configMapRef: { name: 'settings' } }],
            securityContext: { runAsNonRoot: true },
            resources: {
              requests: { '{{PLACEHOLDER}}': '1', memory: '10Mi' },
              limits: { '{{PLACEHOLDER}}': '1', cpu: 2 },
            },
            volumeMounts: [{ name: 'data', mountPath: '/data' }],
          },
        ],
        volumes: [{ name: 'data', emptyDir: {} }],
      },
    })
  })

  it.each(['configuration', 'instance'])('can offer the resources %s alone', async (offer) => {
    const configuration = await configurationOf('onvif', { offer })
    expect(configuration.spec).toMatchObject({ offer })
    expect(await problemsOf(configuration)).toEqual([])
    // What the agents would refuse.
    const broker = { brokerPod: { image: { repository: 'broker' } } }
    const problems = await problemsOf(await configurationOf('onvif', { offer, ...broker }))
    expect(problems.map(({ path }) => path)).toEqual(
      offer === 'configuration' ? ['spec.offer'] : [],
    )
  })

  it('R97 of ONVIF have the configured values', async () => {
    const discoveryDetails = {
      ipAddresses: { action: 'Exclude', items: ['192.168.1.10'] },
      macAddresses: { action: 'Include', items: [] },
      scopes: { action: 'Include', items: ['onvif://www.onvif.org/location/hall-1'] },
      uuids: {
        action: 'Exclude',
        items: ['4c4c4544-0051-3510-8052-b4c04f4d3132', '007', '1e3', 'yes'],
      },
      discoveryTimeoutSeconds: 5,
      probeAddresses: ['192.168.7.20', 'fe80::1%eth0'],
      allowedNetworks: ['10.0.0.0/8'],
      mediaProfiles: true,
    }
    const selector = { name: 'onvif-cameras', key: 'username', optional: true }
    const discoveryProperties = [
      { name: 'username_default', valueFrom: { secretKeyRef: selector } },
      { name: 'password_default', value: '{{ not a template }}' },
    ]
    const configuration = await configurationOf('onvif', {
      discoveryDetails,
      discoveryProperties,
      capacity: 3,
    })
    expect(await problemsOf(configuration)).toEqual([])
    expect(detailsOf(configuration)).toEqual(discoveryDetails)
    expect(configuration.spec.discoveryHandler.discoveryProperties).toEqual(discoveryProperties)
  })

  it('have discovery properties without their empty fields', async () => {
    const selector = { name: 'cameras', key: 'k' }
    const discoveryProperties = [
      {
        name: 'a',
        value: null,
        valueFrom: {
          secretKeyRef: { ...selector, namespace: null, optional: null },
          configMapKeyRef: null,
        },
      },
      {
        name: 'b',
        valueFrom: { configMapKeyRef: { ...selector, namespace: '', optional: false } },
      },
      { name: 'c', value: '', valueFrom: null },
    ]
    const configuration = await configurationOf('onvif', { discoveryProperties })
    expect(await problemsOf(configuration)).toEqual([])
    expect(configuration.spec.discoveryHandler.discoveryProperties).toEqual([
      { name: 'a', valueFrom: { secretKeyRef: selector } },
      { name: 'b', valueFrom: { configMapKeyRef: { ...selector, optional: false } } },
      { name: 'c', value: '' },
    ])
  })

  it.each([
    [{}, { standard: { discoveryUrls: ['opc.tcp://localhost:4840/'] } }],
    [{ discoveryUrls: ['opc.tcp://a:1'] }, { standard: { discoveryUrls: ['opc.tcp://a:1'] } }],
    [{ opcuaDiscoveryMethod: { mdns: {} } }, { mdns: {} }],
  ])(
    'take the discovery method of OPC UA as the existing chart and as the handler: %j',
    async (details, method) => {
      const applicationNames = { action: 'Exclude', items: ['Test bench'] }
      const configuration = await configurationOf('opcua', {
        discoveryDetails: { ...details, applicationNames },
      })
      expect(await problemsOf(configuration)).toEqual([])
      expect(detailsOf(configuration)).toEqual({ opcuaDiscoveryMethod: method, applicationNames })
    },
  )

  it.each([
    ['onvif', 'uuids', 12_345, '12345'],
    ['onvif', 'macAddresses', 112_233_445_566, '112233445566'],
    ['opcua', 'applicationNames', 4711, '4711'],
  ])(
    'of %s have %s as texts, also if they look like a number',
    async (handler, name, item, text) => {
      for (const action of [{}, { action: 'Include' }]) {
        const discoveryDetails = { [name]: { ...action, items: [item, 'b'] } }
        const configuration = await configurationOf(handler, { discoveryDetails })
        const expected = { [name]: { ...action, items: [text, 'b'] } }
        expect(detailsOf(configuration)).toMatchObject(expected)
        expect(await problemsOf(configuration)).toEqual([])
      }
    },
  )

  it.each([
    ['onvif', { discoveryTimeoutSeconds: 90 }],
    ['onvif', { discoveryTimeoutSeconds: 0 }],
    ['onvif', { discoveryTimeoutSeconds: 1.5, interfaces: null, refreshSeconds: null }],
    ['opcua', { opcuaDiscoveryMethod: { mdns: {} }, allowedNetworks: null }],
    ['debugEcho', { descriptions: null }],
  ])('of %s have details that the handler takes: %j', async (handler, discoveryDetails) => {
    expect(await problemsOf(await configurationOf(handler, { discoveryDetails }))).toEqual([])
  })

  it('are refused if two of them have one name', async () => {
    const cam = { enabled: true, name: 'cam' }
    await expect(
      render({ opcua: { configuration: cam }, debugEcho: { configuration: cam } }),
    ).rejects.toThrow(/opcua\.configuration\.name: debugEcho\.configuration has the name cam too/)
  })

  it('have a Job for brokerJob', async () => {
    const brokerJob = {
      image: { repository: 'job', tag: '2' },
      command: ['sh', '-c', 'echo "{{ $UDEV_DEVNODE }}"'],
      backoffLimit: 1_000_000,
    }
    const configuration = await configurationOf('debugEcho', { brokerJob })
    expect(await problemsOf(configuration)).toEqual([])
    const device = { '{{PLACEHOLDER}}': '1' }
    const container = {
      name: 'akri-debug-echo-broker',
      image: 'job:2',
      command: brokerJob.command,
      resources: { requests: device, limits: device },
    }
    expect(configuration.spec.brokerSpec).toEqual({
      brokerJobSpec: {
        backoffLimit: 1_000_000,
        parallelism: 1,
        completions: 1,
        template: { spec: { restartPolicy: 'OnFailure', containers: [container] } },
      },
    })
    // As in the existing chart.
    const services = ['instanceServiceSpec', 'configurationServiceSpec']
    for (const service of services) expect(configuration.spec).toHaveProperty(service)
    const { spec } = await configurationOf('onvif', { brokerJob })
    for (const service of services) expect(spec).not.toHaveProperty(service)
  })

  it.each([
    ['brokerPod', { tag: '' }],
    ['brokerPod', { tag: null }],
    ['brokerJob', { tag: '' }],
    ['brokerJob', { tag: null }],
  ])('have the tag latest for a %s whose image has no tag: %j', async (broker, image) => {
    const values = { [broker]: { image: { repository: 'registry.example:5000/broker', ...image } } }
    const { spec } = await configurationOf('debugEcho', values)
    expect(JSON.stringify(spec.brokerSpec)).toContain(
      '"image":"registry.example:5000/broker:latest"',
    )
  })

  it('have Services with the ports of the existing chart, and pull secrets', async () => {
    const brokerPod = { image: { repository: 'broker' } }
    const objects = await render({
      imagePullSecrets: [{ name: 'registry' }],
      udev: { configuration: { enabled: true, brokerPod, discoveryDetails: { udevRules: [''] } } },
      debugEcho: { configuration: { enabled: true, brokerPod, brokerJob: brokerPod } },
    })
    const ports = objects
      .filter(isConfiguration)
      .map(({ spec }) => [spec.instanceServiceSpec, spec.configurationServiceSpec])
    const service = (port: number, targetPort: number) => ({
      type: 'ClusterIP',
      ports: [{ name: 'grpc', port, targetPort, protocol: 'TCP' }],
    })
    expect(ports).toEqual([
      [service(6052, 6052), service(6052, 6052)],
      [service(80, 8083), service(80, 8083)],
    ])
    for (const { spec } of objects.filter(isConfiguration))
      expect(spec.brokerSpec).toMatchObject({
        brokerPodSpec: { imagePullSecrets: [{ name: 'registry' }] },
      })
  })

  it('keep numbers as written, up to the size at which Helm would round them', async () => {
    const brokerProperties = {
      million: 1e6,
      large: Number.MAX_SAFE_INTEGER,
      half: 0.5,
      octal: '0755',
      yes: true,
      e: '1e6',
      '7': -7,
    }
    const { spec } = await configurationOf('debugEcho', { brokerProperties })
    expect(spec.brokerProperties).toEqual({
      million: '1000000',
      large: '9007199254740991',
      half: '0.5',
      octal: '0755',
      yes: 'true',
      e: '1e6',
      '7': '-7',
    })
    await expect(
      configurationOf('debugEcho', { brokerProperties: { serial: 12345678901234567000 } }),
    ).rejects.toThrow(/serial/)
  })

  it('let the webhook register itself, and leave its fields, whatever the values', async () => {
    const values = (['Fail', 'Ignore'] as const).flatMap((failurePolicy) =>
      [true, false].map((enabled) => ({
        webhookConfiguration: { failurePolicy },
        debugEcho: { configuration: { enabled } },
      })),
    )
    for (const value of values) {
      const objects = await render(value)
      const registration = objects.find(({ kind }) => kind === 'ValidatingWebhookConfiguration')
      expect(registration).toMatchObject({ webhooks: [{ timeoutSeconds: 5 }] })
      // Helm 4 would conflict with the webhook over these fields.
      for (const field of ['rules', 'failurePolicy', 'caBundle'])
        expect(JSON.stringify(registration)).not.toContain(`"${field}"`)
      expect(JSON.stringify(objects)).toContain(
        `"AKRI_FAILURE_POLICY","value":"${value.webhookConfiguration.failurePolicy}"`,
      )
    }
  })

  it('keep every text: quotes, braces, lines, YAML and templates', async () => {
    const nasty = [
      '{{PLACEHOLDER}}',
      '{{ .Values.agent | toYaml }}',
      '{{- fail "no" -}}',
      'KERNEL=="video*", ATTR{name}=="a: b # c"',
      '- a\n- b\n',
      'a:\n  - b\n\n\n',
      '  leading and trailing  ',
      '\n  indented\n\nlines\n',
      '"',
      "'",
      '\\',
      '`',
      '|',
      '>-',
      '---',
      '...',
      '%',
      '@',
      '&a',
      '*a',
      '!!str',
      '#',
      '?',
      ':',
      '~',
      'null',
      'yes',
      'No',
      'on',
      '0x10',
      '1_000',
      '1e3',
      '.5',
      '-',
      '=',
      '<<',
      '2026-11-22',
      '12:30:45',
      '<&>',
      '\t',
      '\u00a0',
      '\u{1f4f7}',
      '',
    ]
    const text = fc.oneof(
      fc.string({ unit: 'grapheme-composite' }),
      fc.string({
        unit: fc.constantFrom('{', '}', '"', "'", '\n', ' ', '-', ':', '#', '\\', '|', 'a', '\t'),
      }),
    )
    const texts = fc.array(text, { minLength: 1, maxLength: 100 })
    const property = fc.asyncProperty(texts, async (some) => {
      // Helm's toYaml removes one of several final newlines.
      const udevRules = [...some, ...nasty]
      const brokerProperties = Object.fromEntries(
        udevRules.map((value, index) => [`p${index}`, value]),
      )
      const brokerPod = { image: { repository: 'b' }, env: brokerProperties }
      const configuration = await configurationOf('udev', {
        discoveryDetails: { udevRules },
        brokerProperties,
        brokerPod,
      })
      expect(detailsOf(configuration)).toEqual({ udevRules })
      expect(configuration.spec.brokerProperties).toEqual(brokerProperties)
      const container = Reflect.get(Object(configuration.spec.brokerSpec), 'brokerPodSpec')
        .containers[0]
      const env = container.env.map(({ name, value }: { name: string; value: string }) => [
        name,
        value,
      ])
      expect(Object.fromEntries(env)).toEqual(brokerProperties)
    })
    await fc.assert(property, { numRuns: 30, seed: 20_261_122 })
  })

  it.each([
    ['udev', {}, /udev\.configuration\.discoveryDetails\.udevRules: name at least one rule/],
    ['udev', { discoveryDetails: { udevRules: [] } }, /udevRules: name at least one rule/],
    ['udev', { discoveryDetails: { udevRules: 'KERNEL=="a"' } }, /udevRules/],
    [
      'opcua',
      {
        discoveryDetails: { discoveryUrls: ['opc.tcp://a:1'], opcuaDiscoveryMethod: { mdns: {} } },
      },
      /give one of discoveryUrls and opcuaDiscoveryMethod/,
    ],
    [
      'onvif',
      { discoveryProperties: [{ name: 'a', value: 'b', valueFrom: {} }] },
      /discoveryProperties/,
    ],
    [
      'onvif',
      {
        discoveryProperties: [
          {
            name: 'a',
            valueFrom: {
              secretKeyRef: { name: 's', key: 'k' },
              configMapKeyRef: { name: 's', key: 'k' },
            },
          },
        ],
      },
      /discoveryProperties.0.valueFrom/,
    ],
    ['onvif', { instanceService: { port: 0 } }, /instanceService.*port/],
    ['onvif', { configurationService: { port: 65_536 } }, /configurationService.*port/],
    ['onvif', { instanceService: { targetPort: 0 } }, /targetPort/],
    ['onvif', { instanceService: { targetPort: 99_999 } }, /targetPort/],
    ['onvif', { instanceService: { targetPort: '8083' } }, /targetPort/],
    ['onvif', { instanceService: { targetPort: 'broker--http' } }, /targetPort/],
    ['onvif', { discoveryDetails: { interfaces: [] } }, /interfaces/],
    ['onvif', { discoveryDetails: { interfaces: ['eth 0'] } }, /interfaces/],
    ['onvif', { name: 'a'.repeat(57) }, /\bname\b/],
  ])('of %s is rejected: %j', async (handler, values, message) => {
    await expect(configurationOf(handler, values)).rejects.toThrow(message)
  })
})
