import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { parseConfigurationEntries } from './api-objects.js'

interface Schema {
  readonly type: string
  readonly nullable?: boolean
  readonly default?: unknown
  readonly properties: Readonly<Record<string, Schema>>
}

interface CustomResourceDefinition {
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly scope: string
    readonly names: object
    readonly versions: readonly {
      readonly name: string
      readonly subresources?: object
      readonly additionalPrinterColumns: readonly {
        readonly name: string
        readonly jsonPath: string
      }[]
      readonly schema: { readonly openAPIV3Schema: Schema }
    }[]
  }
}

const definitionOf = (file: string) =>
  load(
    readFileSync(path.join(import.meta.dirname, '../crds', file), 'utf8'),
  ) as CustomResourceDefinition

function partsOf({ spec: { versions } }: CustomResourceDefinition) {
  const [version = expect.fail('there is no version')] = versions
  const { spec = expect.fail('there is no spec') } = version.schema.openAPIV3Schema.properties
  const columns = version.additionalPrinterColumns.map(({ name, jsonPath }) => [name, jsonPath])
  return {
    version,
    fields: spec.properties,
    columns: Object.fromEntries(columns) as Record<string, string>,
  }
}

describe('the custom resource Configuration', () => {
  const definition = definitionOf('configurations.yaml')
  const { version, fields, columns } = partsOf(definition)

  it('R59 is namespaced, with the short name akric', () => {
    expect(definition.metadata.name).toBe('configurations.akri.sh')
    expect(definition.spec).toMatchObject({
      scope: 'Namespaced',
      names: {
        kind: 'Configuration',
        plural: 'configurations',
        singular: 'configuration',
        shortNames: ['akric'],
      },
      versions: [{ name: 'v0', served: true, storage: true }],
    })
    expect(columns).toEqual({
      Capacity: '.spec.capacity',
      Devices: '.status.devices',
      Slots: '.status.slots.total',
      Free: '.status.slots.free',
      Ready: '.status.conditions[?(@.type=="Ready")].status',
      Reason: '.status.conditions[?(@.type=="Ready")].reason',
      Age: '.metadata.creationTimestamp',
    })
  })

  it('is not ready when it is new, and our programs read it as one without a status', () => {
    const status = version.schema.openAPIV3Schema.properties.status?.default
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

  it('R58 R95 has a handler, a capacity, brokers, Services, and variables', () => {
    expect(Object.keys(fields).sort()).toEqual([
      'brokerProperties',
      'brokerSpec',
      'capacity',
      'configurationServiceSpec',
      'discoveryHandler',
      'instanceServiceSpec',
      'offer',
    ])
    expect(Object.keys(fields.discoveryHandler?.properties ?? {}).sort()).toEqual([
      'discoveryDetails',
      'discoveryProperties',
      'name',
    ])
  })

  it('R59 keeps unknown fields of specs of brokers and Services, or null', () => {
    const brokers = fields.brokerSpec?.properties ?? {}
    for (const spec of [
      brokers.brokerPodSpec,
      brokers.brokerJobSpec,
      brokers.brokerDeploymentSpec,
      fields.instanceServiceSpec,
      fields.configurationServiceSpec,
    ])
      expect(spec).toMatchObject({
        type: 'object',
        nullable: true,
        'x-kubernetes-preserve-unknown-fields': true,
      })
  })

  it('has a status subresource', () => {
    expect(version.subresources).toEqual({ status: {} })
  })

  it('has no alternatives, whose refusals name no field', () => {
    expect(JSON.stringify(definition)).not.toMatch(/"(anyOf|oneOf|allOf|not)":/)
  })
})

describe('the custom resource Instance', () => {
  const definition = definitionOf('instances.yaml')
  const { version, fields, columns } = partsOf(definition)

  it('R105 has the properties of a device, its nodes, and the claims of its slots', () => {
    expect(Object.keys(fields).sort()).toEqual([
      'brokerProperties',
      'capacity',
      'cdiName',
      'configurationName',
      'deviceUsage',
      'nodes',
      'shared',
    ])
    // Nodes that write at the same time must not write over each other's.
    expect(fields.nodes).toMatchObject({ 'x-kubernetes-list-type': 'set' })
    expect(fields.deviceUsage).toMatchObject({ 'x-kubernetes-map-type': 'granular' })
  })

  it('is namespaced, with the short name akrii', () => {
    expect(definition.spec).toMatchObject({
      scope: 'Namespaced',
      names: { kind: 'Instance', plural: 'instances', singular: 'instance', shortNames: ['akrii'] },
      versions: [{ name: 'v0', served: true, storage: true }],
    })
    expect(columns).toEqual({
      Config: '.spec.configurationName',
      // With `-o wide`.
      Capacity: '.spec.capacity',
      Problem: '.status.conditions[?(@.type=="DeviceProblem")].status',
      Reason: '.status.conditions[?(@.type=="DeviceProblem")].reason',
      Since: '.status.conditions[?(@.type=="DeviceProblem")].lastTransitionTime',
      Shared: '.spec.shared',
      Nodes: '.spec.nodes',
      Age: '.metadata.creationTimestamp',
    })
    expect(version.subresources).toEqual({ status: {} })
  })
})

describe('the custom resource NodeReport', () => {
  const { metadata, spec } = definitionOf('nodereports.yaml')
  const [version = expect.fail('there is no version')] = spec.versions
  const fields = version.schema.openAPIV3Schema.properties

  it('is an object of the cluster, with the short name akrir and no subresource', () => {
    expect(metadata.name).toBe('nodereports.akri.sh')
    expect(spec).toMatchObject({
      scope: 'Cluster',
      names: { kind: 'NodeReport', plural: 'nodereports', shortNames: ['akrir'] },
      versions: [{ name: 'v0', served: true, storage: true }],
    })
    expect(version.subresources).toBeUndefined()
  })

  it('has mappings whose fields have no owners', () => {
    expect(Object.keys(fields).sort()).toEqual([
      'agentNamespace',
      'agentPod',
      'configurations',
      'counts',
      'memberships',
      'podsToEnd',
      'slots',
    ])
    const { configurations, memberships, podsToEnd, slots } = fields
    for (const mapping of [configurations, memberships, podsToEnd, slots])
      expect(mapping).toMatchObject({ 'x-kubernetes-map-type': 'atomic' })
  })
})
