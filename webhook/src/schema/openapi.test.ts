import { describe, expect, it } from 'vitest'
import { schemasIn, typesOf } from './openapi.js'

/** Of each document the part that matters, in the words of the API server. */
const ref = (prefix: string, name: string) => ({ $ref: `#/${prefix}/${name}` })

function schemas(prefix: string, wrap: (reference: object) => object): Record<string, unknown> {
  const to = (name: string) => wrap(ref(prefix, name))
  return {
    'io.k8s.api.core.v1.PodSpec': {
      type: 'object',
      required: ['containers'],
      properties: {
        containers: { type: 'array', items: to('io.k8s.api.core.v1.Container') },
        nodeSelector: { type: 'object', additionalProperties: { type: 'string', default: '' } },
        hostNetwork: { type: 'boolean' },
        priority: { type: 'integer', format: 'int32' },
        activeDeadlineSeconds: { type: 'integer', format: 'int64' },
        overhead: {
          type: 'object',
          additionalProperties: to('io.k8s.apimachinery.pkg.api.resource.Quantity'),
        },
        securityContext: to('io.k8s.api.core.v1.Unknown'),
      },
    },
    'io.k8s.api.core.v1.Container': {
      properties: {
        name: { type: 'string' },
        port: to('io.k8s.apimachinery.pkg.util.intstr.IntOrString'),
      },
    },
    'io.k8s.api.batch.v1.JobSpec': {
      properties: { template: to('io.k8s.api.core.v1.PodTemplateSpec') },
    },
    'io.k8s.api.apps.v1.DeploymentSpec': {
      properties: { template: to('io.k8s.api.core.v1.PodTemplateSpec') },
    },
    'io.k8s.api.core.v1.PodTemplateSpec': {
      properties: {
        metadata: to('io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'),
        spec: to('io.k8s.api.core.v1.PodSpec'),
      },
    },
    'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta': {
      properties: {
        creationTimestamp: to('io.k8s.apimachinery.pkg.apis.meta.v1.Time'),
        fields: to('io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1'),
      },
    },
    'io.k8s.api.core.v1.ServiceSpec': {
      properties: { type: { type: 'string', enum: ['ClusterIP'] } },
    },
    'io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1': { type: 'object' },
    'io.k8s.apimachinery.pkg.apis.meta.v1.Time': { type: 'string', format: 'date-time' },
    'io.k8s.api.core.v1.Secret': { properties: { data: { type: 'object' } } },
  }
}

const TYPES = {
  'io.k8s.api.core.v1.PodSpec': {
    containers: '[]io.k8s.api.core.v1.Container!',
    nodeSelector: '{}string',
    hostNetwork: 'boolean',
    priority: 'int32',
    activeDeadlineSeconds: 'int64',
    overhead: '{}quantity',
    securityContext: 'any',
  },
  'io.k8s.api.core.v1.Container': { name: 'string', port: 'intOrString' },
  'io.k8s.api.batch.v1.JobSpec': { template: 'io.k8s.api.core.v1.PodTemplateSpec' },
  'io.k8s.api.apps.v1.DeploymentSpec': { template: 'io.k8s.api.core.v1.PodTemplateSpec' },
  'io.k8s.api.core.v1.PodTemplateSpec': {
    metadata: 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta',
    spec: 'io.k8s.api.core.v1.PodSpec',
  },
  'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta': { creationTimestamp: 'string', fields: 'any' },
  'io.k8s.api.core.v1.ServiceSpec': { type: 'string' },
}

describe('the types of a cluster', () => {
  it('come from its OpenAPI 2', () => {
    const document = {
      swagger: '2.0',
      definitions: {
        ...schemas('definitions', (reference) => reference),
        'io.k8s.apimachinery.pkg.api.resource.Quantity': { type: 'string' },
        'io.k8s.apimachinery.pkg.util.intstr.IntOrString': {
          type: 'string',
          format: 'int-or-string',
        },
      },
    }
    expect(typesOf(schemasIn(document), 'v1.20.2')?.types).toEqual(TYPES)
  })

  it('come from its OpenAPI 3, in which references have defaults', () => {
    const document = {
      openapi: '3.0.0',
      components: {
        schemas: {
          ...schemas('components/schemas', (reference) => ({ allOf: [reference], default: {} })),
          'io.k8s.apimachinery.pkg.api.resource.Quantity': {
            oneOf: [{ type: 'string' }, { type: 'number' }],
          },
          'io.k8s.apimachinery.pkg.util.intstr.IntOrString': {
            oneOf: [{ type: 'integer' }, { type: 'string' }],
            format: 'int-or-string',
          },
        },
      },
    }
    expect(typesOf(schemasIn(document), 'v1.34.0')).toEqual({
      version: 'v1.34.0',
      roots: expect.objectContaining({ podSpec: 'io.k8s.api.core.v1.PodSpec' }),
      types: TYPES,
    })
  })

  it.each(
    Object.keys(TYPES).filter((name) => name.endsWith('Spec') && !name.endsWith('TemplateSpec')),
  )('are not there at all without %s', (name) => {
    const { [name]: _missing, ...definitions } = schemas('definitions', (reference) => reference)
    expect(typesOf(schemasIn({ definitions }), 'v1.20.2')).toBeUndefined()
  })

  it.each([
    undefined,
    null,
    'no document',
    [],
    { definitions: [] },
    { components: { schemas: null } },
  ])('are absent in %j', (document) => {
    expect(typesOf(schemasIn(document), 'v1')).toBeUndefined()
  })
})
