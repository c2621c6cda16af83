import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { BUNDLED_TYPES } from '@akrijs/api'
import debugEcho from '@akrijs/handler-debug-echo'
import opcua from '@akrijs/handler-opcua'
import udev from '@akrijs/handler-udev'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { Reviewer } from './reviewer.js'

const root = path.join(import.meta.dirname, '../../..')

const reviewer = new Reviewer({
  types: () => BUNDLED_TYPES,
  handlers: new Map([udev, opcua, debugEcho].map((handler) => [handler.name, handler])),
  names: { problems: async () => [] },
  failurePolicy: 'Fail',
  clock: systemClock,
  log: silentLogger,
})

function review(object: unknown) {
  return reviewer.review({
    apiVersion: 'admission.k8s.io/v1',
    uid: '1',
    operation: 'CREATE',
    namespace: 'default',
    object,
    oldObject: undefined,
  })
}

const inFolder = (folder: string, ending: string) =>
  readdirSync(path.join(root, folder), { encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => path.join(folder, name))

/** Configurations of the files, and of the blocks of YAML in the docs. */
const published = [
  ...['deploy/manifests/examples', 'examples/standalone'].flatMap((folder) =>
    inFolder(folder, '.yaml'),
  ),
  ...inFolder('docs', '.md'),
].flatMap((file) => {
  const text = readFileSync(path.join(root, file), 'utf8')
  const yaml = file.endsWith('.md')
    ? [...text.matchAll(/^[ ]*```yaml\n(.*?)^[ ]*```$/gms)].map(([, block = '']) => block)
    : [text]
  return yaml
    .flatMap((text) => loadAll(text))
    .filter(
      (object): object is { kind: string } =>
        typeof object === 'object' && object !== null && 'kind' in object,
    )
    .filter(({ kind }) => kind === 'Configuration')
    .map((object) => ({ file, object }))
})

const LAB = `
apiVersion: akri.sh/v0
kind: Configuration
metadata:
  name: lab-echo
  namespace: default
  uid: 5f0c3b3e-0000-4000-8000-000000000000
  generation: 1
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields:
    - manager: python
      operation: Update
      apiVersion: akri.sh/v0
      fieldsType: FieldsV1
      fieldsV1: { "f:spec": {} }
spec:
  discoveryHandler:
    name: debugEcho
    discoveryDetails: |
      descriptions: [foo0, foo1]
    discoveryProperties:
      - name: lab_token
        valueFrom:
          secretKeyRef: { name: lab, namespace: default, key: token, optional: true }
  capacity: 2
  brokerSpec:
    brokerPodSpec:
      containers:
        - name: b
          image: nginx:stable-alpine
          resources:
            requests: { "{{PLACEHOLDER}}": "1" }
            limits:   { "{{PLACEHOLDER}}": "1" }
  instanceServiceSpec:
    type: ClusterIP
    ports: [{ name: p, port: 80, targetPort: 80, protocol: TCP }]
  configurationServiceSpec:
    type: ClusterIP
    ports: [{ name: p, port: 80, targetPort: 80, protocol: TCP }]
  brokerProperties: { SITE: north }
`
const lab = loadAll(LAB)[0] as { metadata: object; spec: object }
const CONTAINERS = [{ name: 'b', image: 'i' }]
const labWith = (spec: object) => ({ ...lab, spec: { ...lab.spec, ...spec } })

describe('a Configuration that people write', () => {
  it('is published: the corpus is not empty', () => {
    expect(published.length).toBeGreaterThan(4)
  })

  it.each(published)('R95 passes as $file shows it', async ({ file, object }) => {
    const runs = expect.stringMatching(/only akri run can start the broker$/)
    const isForRun = JSON.stringify(object).includes('"command":') && /standalone/.test(file)
    expect(await review(object)).toEqual({ outcome: 'allowed', warnings: isForRun ? [runs] : [] })
  })

  it.each<[string, string, object]>([
    ['R66', 'as the contract has it', {}],
    ['R66', 'with ports 0', { instanceServiceSpec: { ports: [{ port: 0, targetPort: 0 }] } }],
    ['R66 R51', 'without a broker', { brokerSpec: undefined, instanceServiceSpec: null }],
    ['R66 R51', 'with an empty broker', { brokerSpec: {} }],
    [
      'R66 R50',
      'with a Job',
      {
        brokerSpec: {
          brokerJobSpec: {
            backoffLimit: 2,
            template: { spec: { restartPolicy: 'OnFailure', containers: CONTAINERS } },
          },
        },
      },
    ],
    [
      'R66',
      'with a Deployment',
      {
        brokerSpec: {
          brokerDeploymentSpec: { replicas: 2, template: { spec: { containers: CONTAINERS } } },
        },
      },
    ],
    [
      'R66',
      'with another handler, whose details are its own matter',
      { discoveryHandler: { name: 'zigbee', discoveryDetails: ': [' } },
    ],
    [
      'W1',
      'with a handler whose name is another one in lower case',
      { discoveryHandler: { name: 'debugecho', discoveryDetails: '[' } },
    ],
    [
      'R66',
      'with resources of the Pod',
      {
        brokerSpec: {
          brokerPodSpec: { containers: CONTAINERS, resources: { limits: { cpu: 1 } } },
        },
      },
    ],
  ])('%s passes %s', async (_tags, _how, spec) => {
    expect(await review(labWith(spec))).toMatchObject({ outcome: 'allowed' })
  })

  it.each<[string, object, string, RegExp]>([
    [
      'details that are not YAML',
      { discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [' } },
      'spec.discoveryHandler.discoveryDetails',
      /not YAML: .* in line 1, column \d+/,
    ],
    [
      'details without what the handler needs',
      { discoveryHandler: { name: 'udev' } },
      'spec.discoveryHandler.discoveryDetails.udevRules',
      /missing/,
    ],
    [
      'a wrong udev rule',
      {
        discoveryHandler: {
          name: 'udev',
          discoveryDetails: 'udevRules:\n- KERNEL=="video*"\n- KERNEL=="null", SUBSYSTEM="mem"\n',
        },
      },
      'spec.discoveryHandler.discoveryDetails.udevRules[1]',
      /^line 1, column 26: .*\n {2}KERNEL=="null", SUBSYSTEM="mem"\n +\^$/,
    ],
    [
      'permissions that are none',
      { discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: []\npermissions: x' } },
      'spec.discoveryHandler.discoveryDetails.permissions',
      /^write r, w, m, rw, rm, rwm or wm; it is "x"$/,
    ],
    [
      'an opcua method that does not exist',
      { discoveryHandler: { name: 'opcua', discoveryDetails: 'opcuaDiscoveryMethod: {}' } },
      'spec.discoveryHandler.discoveryDetails.opcuaDiscoveryMethod',
      /name one method: standard or mdns/,
    ],
    [
      'a wrong opcua network',
      {
        discoveryHandler: {
          name: 'opcua',
          discoveryDetails: 'opcuaDiscoveryMethod: { mdns: {} }\nallowedNetworks: [10.0.0.0/33]',
        },
      },
      'spec.discoveryHandler.discoveryDetails.allowedNetworks[0]',
      /this is not a network/,
    ],
    ['no handler', { discoveryHandler: undefined }, 'spec.discoveryHandler', /missing/],
    ['a handler without a name', { discoveryHandler: {} }, 'spec.discoveryHandler.name', /missing/],
    [
      'a handler that is a text',
      { discoveryHandler: 'udev' },
      'spec.discoveryHandler',
      /it is "udev"/,
    ],
    [
      'two brokers',
      { brokerSpec: { brokerPodSpec: { containers: [] }, brokerJobSpec: { template: {} } } },
      'spec.brokerSpec',
      /give one of brokerPodSpec and brokerJobSpec/,
    ],
    [
      'a broker that is a list',
      { brokerSpec: { brokerPodSpec: [] } },
      'spec.brokerSpec.brokerPodSpec',
      /it is a list/,
    ],
    [
      'an empty valueFrom',
      { discoveryHandler: { name: 'x', discoveryProperties: [{ name: 'a', valueFrom: {} }] } },
      'spec.discoveryHandler.discoveryProperties[0].valueFrom',
      /give one of secretKeyRef and configMapKeyRef/,
    ],
    [
      'an unknown valueFrom',
      {
        discoveryHandler: {
          name: 'x',
          discoveryProperties: [{ name: 'a', valueFrom: { fieldRef: {} } }],
        },
      },
      'spec.discoveryHandler.discoveryProperties[0].valueFrom.fieldRef',
      /no such field/,
    ],
    [
      'two values',
      {
        discoveryHandler: {
          name: 'x',
          discoveryProperties: [
            { name: 'a', value: 'b', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
          ],
        },
      },
      'spec.discoveryHandler.discoveryProperties[0]',
      /give one of value and valueFrom/,
    ],
    [
      'a property without a name',
      { discoveryHandler: { name: 'x', discoveryProperties: [{ value: 'b' }] } },
      'spec.discoveryHandler.discoveryProperties[0].name',
      /missing/,
    ],
    [
      'a secret without a key',
      {
        discoveryHandler: {
          name: 'x',
          discoveryProperties: [{ name: 'a', valueFrom: { secretKeyRef: { name: 's' } } }],
        },
      },
      'spec.discoveryHandler.discoveryProperties[0].valueFrom.secretKeyRef.key',
      /missing/,
    ],
    ['a capacity below one', { capacity: -1 }, 'spec.capacity', /it is -1/],
    [
      'an unknown field of a Pod',
      { brokerSpec: { brokerPodSpec: { containers: [], xUnknownSyntheticField: 1 } } },
      'spec.brokerSpec.brokerPodSpec.xUnknownSyntheticField',
      /no such field/,
    ],
    [
      'a misplaced field of a Job',
      { brokerSpec: { brokerJobSpec: { template: {}, restartPolicy: 'Never' } } },
      'spec.brokerSpec.brokerJobSpec.restartPolicy',
      /it belongs to template\.spec/,
    ],
    [
      'a misspelt field of a Deployment',
      { brokerSpec: { brokerDeploymentSpec: { template: {}, replica: 2 } } },
      'spec.brokerSpec.brokerDeploymentSpec.replica',
      /did you mean replicas\?/,
    ],
    [
      'a container without a name',
      { brokerSpec: { brokerPodSpec: { containers: [{ image: 'i' }] } } },
      'spec.brokerSpec.brokerPodSpec.containers[0].name',
      /^it is missing; write the name of the container$/,
    ],
    [
      'a container without an image',
      {
        brokerSpec: {
          brokerJobSpec: { template: { spec: { containers: [{ name: 'b', image: '' }] } } },
        },
      },
      'spec.brokerSpec.brokerJobSpec.template.spec.containers[0].image',
      /^it is missing; write the image of the container$/,
    ],
    [
      'an init container without an image',
      {
        brokerSpec: {
          brokerPodSpec: { initContainers: [{ name: 'a' }], containers: CONTAINERS },
        },
      },
      'spec.brokerSpec.brokerPodSpec.initContainers[0].image',
      /missing/,
    ],
    [
      'no container',
      { brokerSpec: { brokerDeploymentSpec: { template: { spec: { containers: [] } } } } },
      'spec.brokerSpec.brokerDeploymentSpec.template.spec.containers',
      /^it is empty; write a container$/,
    ],
    [
      'a wrong Service of Instances',
      { instanceServiceSpec: { ports: { port: 80 } } },
      'spec.instanceServiceSpec.ports',
      /write a list/,
    ],
    [
      'a wrong Service of the Configuration',
      { configurationServiceSpec: { port: 80 } },
      'spec.configurationServiceSpec.port',
      /did you mean ports\?/,
    ],
  ])(
    'W1 R66 is denied if it has %s, with the path and the reason',
    async (_what, spec, where, message) => {
      const verdict = await review(labWith(spec))
      expect(verdict.outcome === 'denied' && verdict.problems[0]).toEqual({
        path: where,
        message: expect.stringMatching(message),
      })
    },
  )

  it('R66 is denied with all its mistakes at once', async () => {
    const verdict = await review(
      labWith({
        capacity: 'two',
        discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [ACTION=="add"]' },
        brokerSpec: { brokerPodSpec: { container: [] } },
        instanceServiceSpec: { ports: [{ port: 'http' }] },
      }),
    )
    expect(verdict.outcome === 'denied' && verdict.problems.map((problem) => problem.path)).toEqual(
      [
        'spec.capacity',
        'spec.brokerSpec.brokerPodSpec.container',
        'spec.brokerSpec.brokerPodSpec.containers',
        'spec.instanceServiceSpec.ports[0].port',
        'spec.discoveryHandler.discoveryDetails.udevRules[0]',
      ],
    )
  })

  it('W1 names handlers in any case, and gets a warning for a similar name', async () => {
    const verdict = await review(
      labWith({ discoveryHandler: { name: 'Udev', discoveryDetails: 'permissions: wrong' } }),
    )
    expect(verdict).toEqual({
      outcome: 'allowed',
      warnings: [expect.stringContaining('there is also a handler udev')],
    })
  })
})
