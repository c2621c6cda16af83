import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { parseConfigurationEntries } from './api-objects.js'

interface Schema {
  readonly default?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
}

interface CustomResourceDefinition {
  readonly spec: {
    readonly versions: readonly [
      {
        readonly subresources?: object
        readonly additionalPrinterColumns: readonly {
          readonly name: string
          readonly jsonPath: string
        }[]
        readonly schema: { readonly openAPIV3Schema: Schema }
      },
    ]
  }
}

const definitionOf = (file: string) =>
  load(
    readFileSync(path.join(import.meta.dirname, '../crds', file), 'utf8'),
  ) as CustomResourceDefinition
const versionOf = (file: string) => definitionOf(file).spec.versions[0]
const fieldsOf = (file: string) => versionOf(file).schema.openAPIV3Schema.properties ?? {}

it.each([
  ['Configuration', 'Namespaced', 'akric', { status: {} }],
  ['Instance', 'Namespaced', 'akrii', { status: {} }],
  ['NodeReport', 'Cluster', 'akrir', undefined],
])(
  'R59 the custom resource %s is %s, with the short name %s',
  (kind, scope, short, subresources) => {
    const plural = `${kind.toLowerCase()}s`
    expect(definitionOf(`${plural}.yaml`)).toMatchObject({
      metadata: { name: `${plural}.akri.sh` },
      spec: {
        scope,
        names: { kind, plural, shortNames: [short] },
        versions: [{ name: 'v0', served: true, storage: true }],
      },
    })
    expect(versionOf(`${plural}.yaml`).subresources).toEqual(subresources)
  },
)

it.each([
  ['configurations.yaml', 'Handler Capacity Devices Slots Free Ready Reason Age'],
  ['instances.yaml', 'Config Shared Nodes Capacity Problem Reason Since Age'],
])('R59 the columns of %s are %s, each of a field', (file, names) => {
  const columns = versionOf(file).additionalPrinterColumns
  expect(columns.map(({ name }) => name).join(' ')).toBe(names)
  for (const { jsonPath } of columns.filter(({ name }) => name !== 'Age')) {
    let schema: Schema | undefined = versionOf(file).schema.openAPIV3Schema
    for (const field of jsonPath
      .replace(/\[[^\]]*\]/, '')
      .split('.')
      .slice(1))
      schema = (schema?.properties ?? schema?.items?.properties)?.[field]
    expect(schema, jsonPath).toBeDefined()
  }
})

it('a new Configuration is not ready, and our programs read it as one without a status', () => {
  const status = fieldsOf('configurations.yaml').status?.default
  expect(status).toMatchObject({
    observedGeneration: 0,
    conditions: [{ type: 'Ready', status: 'Unknown' }],
  })
  const metadata = {
    name: 'cam',
    namespace: 'plant',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
  }
  const read = parseConfigurationEntries({ metadata, status })
  expect(read?.status).toBeUndefined()
  expect(read?.otherConditions).toEqual([])
})

it('R59 a Configuration keeps unknown fields of specs of brokers and Services, or null', () => {
  const { brokerSpec, ...spec } = fieldsOf('configurations.yaml').spec?.properties ?? {}
  const { brokerPodSpec, brokerJobSpec, brokerDeploymentSpec } = brokerSpec?.properties ?? {}
  const { instanceServiceSpec, configurationServiceSpec } = spec
  const brokers = [brokerPodSpec, brokerJobSpec, brokerDeploymentSpec]
  for (const each of [...brokers, instanceServiceSpec, configurationServiceSpec])
    expect(each).toMatchObject({
      type: 'object',
      nullable: true,
      'x-kubernetes-preserve-unknown-fields': true,
    })
})

it('a Configuration has no alternatives, whose refusals name no field', () => {
  const text = JSON.stringify(definitionOf('configurations.yaml'))
  expect(text).not.toMatch(/"(anyOf|oneOf|allOf|not)":/)
})

it('R105 nodes of an Instance that write at the same time keep what others wrote', () => {
  const { nodes, deviceUsage } = fieldsOf('instances.yaml').spec?.properties ?? {}
  expect(nodes).toMatchObject({ 'x-kubernetes-list-type': 'set' })
  expect(deviceUsage).toMatchObject({ 'x-kubernetes-map-type': 'granular' })
})

it('a NodeReport has mappings whose fields have no owners', () => {
  const { configurations, memberships, podsToEnd, slots } = fieldsOf('nodereports.yaml')
  for (const mapping of [configurations, memberships, podsToEnd, slots])
    expect(mapping).toMatchObject({ 'x-kubernetes-map-type': 'atomic' })
})
