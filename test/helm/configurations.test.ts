import { readFileSync } from 'node:fs'
import path from 'node:path'
import { systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { dump, load } from 'js-yaml'
import { expect, it } from 'vitest'
import { configurationFindings } from '../../api/src/configuration-problems.js'
import { BUNDLED_TYPES } from '../../api/src/generated/bundled-types.js'
import debugEcho from '../../handlers/debug-echo/src/index.js'
import mdns from '../../handlers/mdns/src/index.js'
import modbus from '../../handlers/modbus/src/index.js'
import mqtt from '../../handlers/mqtt/src/index.js'
import onvif from '../../handlers/onvif/src/index.js'
import opcua from '../../handlers/opcua/src/index.js'
import snmp from '../../handlers/snmp/src/index.js'
import ssdp from '../../handlers/ssdp/src/index.js'
import udev from '../../handlers/udev/src/index.js'
import usb from '../../handlers/usb/src/index.js'
import { detailsProblems } from '../../webhook/src/review/handler-details.js'
import { describeUnless } from '../support/unless.js'
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
const handlers = new Map(
  [debugEcho, mdns, modbus, mqtt, onvif, opcua, snmp, ssdp, udev, usb].map((handler) => [
    handler.name,
    handler,
  ]),
)
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

describeUnless(missingForChart, 'the Configurations of the chart', () => {
  it.each([
    ['udev', 'udev.yaml', { discoveryDetails: { udevRules: [videoRule], permissions: 'rw' } }],
    ['usb', 'usb.yaml', { discoveryDetails: { vendorIds: { items: ['0403'] } } }],
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

  it('R97 have what configurations.golden.txt shows, and their readers accept them', async () => {
    const file = path.join(import.meta.dirname, 'configurations.cases.yaml')
    const cases = load(readFileSync(file, 'utf8')) as Record<string, { handler: string }>
    const found: Record<string, unknown> = {}
    for (const [what, { handler, ...values }] of Object.entries(cases)) {
      const configuration = await configurationOf(handler, values)
      expect([what, await problemsOf(configuration)]).toEqual([what, []])
      const { metadata, spec } = configuration
      const { discoveryHandler, ...others } = spec
      const details = detailsOf(configuration)
      found[what] = {
        name: metadata.name,
        spec: { discoveryHandler: { ...discoveryHandler, discoveryDetails: details }, ...others },
      }
    }
    const text = dump(found, { flowLevel: 3, lineWidth: -1 })
    await expect(text).toMatchFileSnapshot('configurations.golden.txt')
  })

  it('offer no resource that brokers need', async () => {
    // What the agents would refuse.
    const broker = { brokerPod: { image: { repository: 'broker' } } }
    const problems = async (offer: string) =>
      (await problemsOf(await configurationOf('onvif', { offer, ...broker }))).map(
        (one) => one.path,
      )
    expect(await problems('configuration')).toEqual(['spec.offer'])
    expect(await problems('instance')).toEqual([])
  })

  it('have the numbers of --set as texts in filters, also by TXT keys', async () => {
    const discoveryDetails = { names: { items: [5] }, txt: { txtvers: { items: [1] } } }
    const configuration = await configurationOf('mdns', { discoveryDetails })
    expect(detailsOf(configuration)).toMatchObject({
      ...{ names: { items: ['5'] }, txt: { txtvers: { items: ['1'] } } },
    })
  })

  it('have the pull secrets of the chart', async () => {
    const brokerPod = { image: { repository: 'broker' } }
    const objects = await render({
      imagePullSecrets: [{ name: 'registry' }],
      debugEcho: { configuration: { enabled: true, brokerPod } },
    })
    expect(objects.filter(isConfiguration)).toMatchObject([
      { spec: { brokerSpec: { brokerPodSpec: { imagePullSecrets: [{ name: 'registry' }] } } } },
    ])
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
    ['onvif', { instanceService: { targetPort: 0 } }, /targetPort/],
    ['onvif', { instanceService: { targetPort: 'broker--http' } }, /targetPort/],
    ['onvif', { discoveryDetails: { interfaces: ['eth 0'] } }, /interfaces/],
    ['onvif', { name: 'a'.repeat(57) }, /\bname\b/],
    // Helm would round the number.
    ['debugEcho', { brokerProperties: { serial: 12345678901234567000 } }, /serial/],
  ])('of %s is rejected: %j', async (handler, values, message) => {
    await expect(configurationOf(handler, values)).rejects.toThrow(message)
  })
})
