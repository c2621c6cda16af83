import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseManifests } from './manifest.js'

const CONFIGURATION =
  'apiVersion: akri.sh/v0\nkind: Configuration\n' +
  'metadata: { name: lab }\nspec: { discoveryHandler: { name: udev } }\n'

function dataOf(text: string) {
  const { manifests, problems } = parseManifests(text, 'lab.yaml')
  expect(problems).toEqual([])
  return manifests.flatMap(({ content }) => (content.kind === 'Data' ? [content.data] : []))
}

it('reads all documents of a file, and omits empty documents', () => {
  const { manifests, problems } = parseManifests(
    `---\n${CONFIGURATION}---\n# nothing\n---\n${CONFIGURATION}`,
    'lab.yaml',
  )
  expect(problems).toEqual([])
  expect(manifests.map(({ document, content }) => [document, content.kind])).toEqual([
    [1, 'Configuration'],
    [3, 'Configuration'],
  ])
})

it('reads JSON, and the items of a List', () => {
  const item = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'lab' }, data: { a: 'b' } }
  const list = { apiVersion: 'v1', kind: 'List', items: [item, { ...item, kind: 'Secrets' }] }
  const { manifests, problems } = parseManifests(JSON.stringify(list), 'lab.json')
  expect(manifests).toHaveLength(1)
  expect(problems).toEqual([
    {
      file: 'lab.json',
      document: 1,
      path: 'items[1].kind',
      message: expect.stringContaining('it is "Secrets"'),
    },
  ])
})

it('reads YAML as kubectl does: merged mappings, and the words for true and false', () => {
  const { manifests, problems } = parseManifests(
    `
    apiVersion: akri.sh/v0
    kind: Configuration
    metadata: {name: cam}
    spec:
      discoveryHandler: {name: onvif}
      instanceServiceSpec: &service {ports: [{port: 80}], publishNotReadyAddresses: yes}
      configurationServiceSpec: {<<: *service, type: ClusterIP}
    `,
    'lab.yaml',
  )
  expect(problems).toEqual([])
  const service = { ports: [{ port: 80 }], publishNotReadyAddresses: true }
  expect(manifests).toMatchObject([
    {
      content: {
        configuration: {
          spec: {
            instanceServiceSpec: service,
            configurationServiceSpec: { ...service, type: 'ClusterIP' },
          },
        },
      },
    },
  ])
  const text = `{apiVersion: akri.sh/v0, kind: Configuration, metadata: {name: cam}, spec: {
    discoveryHandler: {name: onvif}, brokerProperties: {COUNTRY: NO}}}`
  expect(parseManifests(text, 'lab.yaml').problems).toMatchObject([
    { path: 'spec.brokerProperties.COUNTRY', message: expect.stringContaining('false') },
  ])
})

it('continues after a wrong document, and names the document', () => {
  const { manifests, problems } = parseManifests(
    `kind: Pod\n---\n${CONFIGURATION.replace('udev', '[]')}---\n${CONFIGURATION}`,
    'f',
  )
  expect(manifests.map(({ document }) => document)).toEqual([3])
  expect(problems.map(({ document, path }) => [document, path])).toEqual([
    [1, 'kind'],
    [2, 'spec.discoveryHandler.name'],
  ])
})

it.each([
  ['apps/v1', 'DaemonSet'],
  ['v1', 'Pod'],
  ['serving.knative.dev/v1', 'Configuration'],
])('leaves out an object of %s, kind %s', (apiVersion, kind) => {
  const object = { apiVersion, kind, metadata: { name: 'other' } }
  const read = parseManifests(`${JSON.stringify(object)}\n---\n${CONFIGURATION}`, 'lab.yaml')
  expect(read.problems).toEqual([])
  expect(read.manifests.map(({ document }) => document)).toEqual([2])
  expect(read.foreign).toEqual([{ document: 1, at: '', object }])
})

it.each([
  ['akri.sh/v0', 'Instance', 'kind'],
  ['akri.sh/v0', 'Deployment', 'kind'],
  ['akri.io/v0', 'Deployment', 'kind'],
  ['v1', 'Configuraton', 'kind'],
  ['v1', 'Configuration', 'apiVersion'],
  ['akri/v0', 'Configuration', 'apiVersion'],
  ['akri.sh/v1', 'Configuration', 'apiVersion'],
  ['v1', 'ConfigMaps', 'kind'],
  ['v1', undefined, 'kind'],
  [undefined, 'Pod', 'kind'],
])('refuses what can be meant for Akri: of %s, kind %s', (apiVersion, kind, path) => {
  const object = {
    apiVersion,
    kind,
    metadata: { name: 'lab' },
    spec: { discoveryHandler: { name: 'udev' } },
  }
  const { problems, foreign } = parseManifests(JSON.stringify(object), 'lab.yaml')
  expect(problems).toMatchObject([{ path }])
  expect(foreign).toEqual([])
})

it('names the line and column of a syntax error', () => {
  expect(parseManifests('a: 1\nb: [', 'f').problems).toEqual([
    {
      file: 'f',
      document: 0,
      path: '',
      message: expect.stringMatching(/^it is not YAML: /),
      place: { line: 2, column: 5 },
    },
  ])
})

it('reads the plain and the encoded values of Secrets and ConfigMaps', () => {
  const [secret, map] = dataOf(`
kind: Secret
metadata: { name: s, namespace: site }
data: { a: "${Buffer.from([0, 255]).toString('base64')}", b: eA== }
stringData: { b: plain }
---
kind: ConfigMap
metadata: { name: m }
data: { a: text }
binaryData: { a: eA==, c: "eA\\n  ==" }
`)
  expect([secret?.namespace, map?.namespace]).toEqual(['site', 'default'])
  expect([...(secret?.data ?? [])]).toEqual([
    ['a', Buffer.from([0, 255])],
    ['b', Buffer.from('plain')],
  ])
  expect([...(map?.data ?? [])].map(([key, value]) => [key, String(value)])).toEqual([
    ['a', 'text'],
    ['c', 'x'],
  ])
})

it('reads the annotation with the namespaces that may read an object', () => {
  const [shared, own] = dataOf(`
kind: Secret
metadata: { name: s, annotations: { akri.sh/readable-from: "line, hall" } }
---
kind: ConfigMap
metadata: { name: m, annotations: { note: x } }
`)
  expect([shared?.readableFrom, own?.readableFrom]).toEqual(['line, hall', undefined])
  const { problems } = parseManifests(
    'kind: Secret\nmetadata: { name: s, annotations: { akri.sh/readable-from: [line] } }',
    'f',
  )
  expect(problems).toMatchObject([
    {
      path: 'metadata.annotations["akri.sh/readable-from"]',
      message: expect.stringContaining('namespaces with commas'),
    },
  ])
})

it('never shows the value of a Secret in a message', () => {
  const { problems } = parseManifests(
    'kind: Secret\nmetadata: { name: s }\ndata: { a: "hunter2!" }\nstringData: { b: 31337 }',
    'f',
  )
  expect(problems).toHaveLength(1)
  expect(JSON.stringify(problems)).not.toMatch(/hunter2|31337/)
})

it('refuses a file that is too large', () => {
  expect(parseManifests(' '.repeat(4 * 1024 * 1024 + 1), 'f').problems[0]?.message).toContain(
    'more than 4194304 bytes',
  )
})

/** Each of these lists names the list before it ten times. */
const LISTS = Array.from(
  { length: 12 },
  (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(10)}]`,
)

it.each([
  ['aliases that stand for billions', ['a0: &a0 [x,x,x,x,x,x,x,x,x,x]', ...LISTS].join('\n')],
  ['an alias of itself', 'kind: Configuration\nspec: &a { b: *a }'],
  ['a deep nesting', `${'['.repeat(5000)}${']'.repeat(5000)}`],
  [
    'a million blanks in base64',
    `kind: Secret\nmetadata: { name: s }\ndata: { a: "${' '.repeat(1_000_000)}!" }`,
  ],
])('refuses %s, which would take for ever to read', (_title, text) => {
  expect(parseManifests(text, 'f').problems).toHaveLength(1)
})

it('never throws, and names the file in every problem', () => {
  const line = fc.constantFrom(
    'kind: Secret',
    'kind: List',
    'items: [1, null, {}]',
    'metadata:',
    '  name: x',
    'data: [1]',
    'data: {a: !!binary x}',
    '---',
    '- &a [*a]',
    '<<: *a',
    '__proto__: {}',
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(line).map((lines) => lines.join('\n')),
      ),
      (text) => {
        for (const { file } of parseManifests(text, 'f').problems) expect(file).toBe('f')
      },
    ),
  )
})
