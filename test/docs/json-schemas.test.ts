import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { load, loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { fileFindings } from '../../cli/src/validate/file-findings.js'

const root = path.join(import.meta.dirname, '../..')
const text = (file: string) => readFileSync(path.join(root, file), 'utf8')
const schemas = readdirSync(path.join(root, 'cli/schemas'))
const examples = ['deploy/manifests/examples', 'examples']
  .flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      path.join(folder, name),
    ),
  )
  .filter((file) => file.endsWith('.yaml') && !file.includes('node_modules'))

// Keywords of editors stand beside those of JSON Schema.
const ajv = new Ajv({ allowUnionTypes: true, strictTypes: false, allErrors: true })
ajv.addVocabulary(['defaultSnippets'])
const compiled = new Map<string, ValidateFunction>()
function schemaOf(file: string): ValidateFunction {
  const schema = compiled.get(file) ?? ajv.compile(JSON.parse(text(`cli/schemas/${file}`)))
  compiled.set(file, schema)
  return schema
}

/** The paths that the schema refuses. */
function refused(file: string, value: unknown): string[] {
  const schema = schemaOf(file)
  schema(value)
  return (schema.errors ?? []).map(
    ({ instancePath, params }) =>
      `${instancePath}${'additionalProperty' in params ? `/${params.additionalProperty}` : ''}`,
  )
}

interface Configuration {
  readonly spec: {
    readonly discoveryHandler: { readonly name: string; readonly discoveryDetails: string }
  }
}

const configuration = (spec: string) => `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: lab }
spec:
${spec.replace(/^/gm, '  ')}`
const HANDLER = 'discoveryHandler: { name: lab, discoveryDetails: "a: b" }'

describe('the JSON Schema of Configurations', () => {
  it.each(examples)('accepts %s, which names it, and that of its details accepts those', (file) => {
    for (const each of loadAll(text(file)) as Configuration[]) {
      expect(refused('configuration.json', each)).toEqual([])
      const { name, discoveryDetails } = each.spec.discoveryHandler
      if (schemas.includes(`${name}-details.json`))
        expect(refused(`${name}-details.json`, load(discoveryDetails))).toEqual([])
    }
    const named = /^# yaml-language-server: \$schema=(.*)\n/.exec(text(file))?.[1] ?? ''
    expect(path.join(path.dirname(file), named)).toBe('cli/schemas/configuration.json')
  })

  it.each([
    ['a field that is misspelt', `${HANDLER}\ncapacty: 2`, '/spec/capacty'],
    ['details without |', 'discoveryHandler: { name: udev, discoveryDetails: { a: b } }', '/spec'],
    ['a capacity of 0', `${HANDLER}\ncapacity: 0`, '/spec/capacity'],
    ['a value that does not exist', `${HANDLER}\noffer: all`, '/spec/offer'],
    ['no handler', 'capacity: 1', '/spec'],
    [
      'a misspelt field of a Pod',
      `${HANDLER}\nbrokerSpec: { brokerPodSpec: { containers: ` +
        '[{ comand: [sh], image: i, name: b }] } }',
      '/spec/brokerSpec/brokerPodSpec/containers/0/comand',
    ],
    [
      'a Pod without containers',
      `${HANDLER}\nbrokerSpec: { brokerPodSpec: { nodeName: n } }`,
      '/spec/brokerSpec/brokerPodSpec',
    ],
    [
      'a wrong quantity',
      `${HANDLER}\nbrokerSpec: { brokerJobSpec: { template: { spec: { containers: [{ name: b, ` +
        'image: i, resources: { limits: { memory: 64 MB } } }] } } } }',
      '/spec/brokerSpec/brokerJobSpec/template/spec/containers/0/resources/limits/memory',
    ],
    [
      'two kinds of brokers',
      `${HANDLER}\nbrokerSpec: { brokerPodSpec: { containers: [{ name: b, image: i }] }, ` +
        'brokerJobSpec: { template: {} } }',
      '/spec/brokerSpec',
    ],
    [
      'a property with two values',
      'discoveryHandler: { name: lab, discoveryProperties: [{ name: p, value: x, ' +
        'valueFrom: { secretKeyRef: { name: s, key: k } } }] }',
      '/spec/discoveryHandler/discoveryProperties/0',
    ],
    [
      'a wrong Service',
      `${HANDLER}\ninstanceServiceSpec: { ports: [{ port: http }] }`,
      '/spec/instanceServiceSpec/ports/0/port',
    ],
  ])('refuses %s, as akri validate does', async (_title, spec, at) => {
    const file = configuration(spec)
    expect(refused('configuration.json', load(file)).some((path) => path.startsWith(at))).toBe(true)
    const { findings } = await fileFindings('f', file, { names: [], load: async () => undefined })
    expect(findings.some(({ level }) => level === 'problem')).toBe(true)
  })

  it.each([
    ['null in place of fields', `${HANDLER}\ncapacity: null\nbrokerSpec: null\noffer: null`],
    ['another handler', 'discoveryHandler: { name: my-sensor, discoveryDetails: "" }'],
    [
      'a placeholder of a resource, and a Deployment without a selector',
      `${HANDLER}\nbrokerSpec: { brokerDeploymentSpec: { template: { spec: { containers: ` +
        '[{ name: b, image: i, resources: { limits: { "{{PLACEHOLDER}}": "1" } } }] } } } }',
    ],
  ])('accepts %s, as akri validate does', async (_title, spec) => {
    const file = configuration(spec)
    expect(refused('configuration.json', load(file))).toEqual([])
    const { findings } = await fileFindings('f', file, { names: [], load: async () => undefined })
    expect(findings.filter(({ level }) => level === 'problem')).toEqual([])
  })

  it('lists the fields of the details of each built-in handler, and has an example', () => {
    const { spec } = JSON.parse(text('cli/schemas/configuration.json')).properties
    const { handlers } = JSON.parse(text('handlers/built-in.json'))
    const branches = spec.properties.discoveryHandler.allOf
    expect(branches).toHaveLength(handlers.length + 1)
    for (const [index, { name }] of handlers.entries()) {
      const { discoveryDetails } = branches[index].then.properties
      expect(branches[index].if.properties.name.const).toBe(name)
      const fields = Object.keys(JSON.parse(text(`cli/schemas/${name}-details.json`)).properties)
      for (const field of fields) expect(discoveryDetails.description).toContain(`- ${field}: `)
      const { body } = discoveryDetails.defaultSnippets[0]
      const { details } = load(`details: ${body.replace(/\\([$}\\])/g, '$1')}`) as {
        details: string
      }
      expect(refused(`${name}-details.json`, load(details))).toEqual([])
    }
  })

  it('has a description of each field of the details', () => {
    for (const file of schemas.filter((name) => name.endsWith('-details.json'))) {
      const { properties } = JSON.parse(text(`cli/schemas/${file}`))
      for (const [field, schema] of Object.entries(properties))
        expect([file, field, schema]).toEqual([
          file,
          field,
          expect.objectContaining({ description: expect.stringMatching(/\.$/) }),
        ])
    }
  })
})

describe('the JSON Schemas of details', () => {
  it.each([
    ['udev', 'udevRules: KERNEL=="video0"', '/udevRules'],
    ['udev', 'udevRules: []\ngroupRecursiv: true', '/groupRecursiv'],
    ['onvif', 'deviceId: name', '/deviceId'],
    ['opcua', 'opcuaDiscoveryMethod: { mdns: {}, standard: {} }', '/opcuaDiscoveryMethod'],
    ['debugEcho', 'descriptions: [""]', '/descriptions/0'],
  ])('refuse for %s: %j', (name, details, at) => {
    expect(refused(`${name}-details.json`, load(details))).toEqual([at])
  })
})
