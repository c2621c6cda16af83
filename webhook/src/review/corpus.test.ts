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
  it.each(published)('R95 passes as $file shows it', async ({ file, object }) => {
    const runs = expect.stringMatching(/only akri run can start the broker$/)
    const isForRun = JSON.stringify(object).includes('"command":') && /standalone/.test(file)
    expect(await review(object)).toEqual({ outcome: 'allowed', warnings: isForRun ? [runs] : [] })
  })

  it.each<[string, string, object]>([
    ['R66', 'as the contract has it', {}],
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
      'with another handler, whose details are its own matter',
      { discoveryHandler: { name: 'zigbee', discoveryDetails: ': [' } },
    ],
    [
      'W1',
      'with a handler whose name is another one in lower case',
      { discoveryHandler: { name: 'debugecho', discoveryDetails: '[' } },
    ],
  ])('%s passes %s', async (_tags, _how, spec) => {
    expect(await review(labWith(spec))).toMatchObject({ outcome: 'allowed' })
  })

  it.each<[string, object, string, RegExp]>([
    ['no handler', { discoveryHandler: undefined }, 'spec.discoveryHandler', /missing/],
    [
      'details that are not YAML',
      { discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [' } },
      'spec.discoveryHandler.discoveryDetails',
      /not YAML: .* in line 1, column \d+/,
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
