import { isRecord } from '@akrijs/runtime'
import type { KubernetesTypes, Root } from './kubernetes-types.js'

/** As OpenAPI documents of Kubernetes name them. */
const ROOTS: Readonly<Record<Root, string>> = {
  podSpec: 'io.k8s.api.core.v1.PodSpec',
  jobSpec: 'io.k8s.api.batch.v1.JobSpec',
  deploymentSpec: 'io.k8s.api.apps.v1.DeploymentSpec',
  serviceSpec: 'io.k8s.api.core.v1.ServiceSpec',
}

/** Types that Kubernetes reads in ways of their own; what the documents say of them differs from version to version. */
const KNOWN: Readonly<Record<string, string>> = {
  'io.k8s.apimachinery.pkg.api.resource.Quantity': 'quantity',
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString': 'intOrString',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Time': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Duration': 'string',
}

type Schemas = ReadonlyMap<string, Record<string, unknown>>

/** The schemas of a document of OpenAPI 2 (`/openapi/v2`) or 3 (`/openapi/v3/…`). */
export function schemasIn(document: unknown): Schemas {
  const found = field(document, 'definitions') ?? field(field(document, 'components'), 'schemas')
  return new Map(
    isRecord(found)
      ? Object.entries(found).filter((entry): entry is [string, Record<string, unknown>] =>
          isRecord(entry[1]),
        )
      : [],
  )
}

/**
 * What a Configuration needs of the schemas of a cluster.
 * @returns undefined where one of the roots is missing: the documents are not whole
 */
export function typesOf(schemas: Schemas, version: string): KubernetesTypes | undefined {
  const types: Record<string, Record<string, string>> = {}
  const open = Object.values(ROOTS)
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const schema = schemas.get(name)
    if (schema === undefined || Object.hasOwn(types, name)) continue
    const required = new Set(Array.isArray(schema.required) ? schema.required : [])
    const fields: Record<string, string> = {}
    for (const [key, property] of Object.entries(
      isRecord(schema.properties) ? schema.properties : {},
    )) {
      const text = typeText(property, schemas)
      fields[key] = required.has(key) ? `${text}!` : text
      open.push(text.replace(/^(\[\]|\{\})*/, ''))
    }
    types[name] = fields
  }
  return Object.values(ROOTS).every((root) => Object.keys(types[root] ?? {}).length > 0)
    ? { version, roots: ROOTS, types }
    : undefined
}

function typeText(schema: unknown, schemas: Schemas): string {
  if (!isRecord(schema)) return 'any'
  const { $ref: reference, allOf, type, format, items, additionalProperties } = schema
  if (typeof reference === 'string')
    return namedType(reference.slice(reference.lastIndexOf('/') + 1), schemas)
  // How OpenAPI 3 puts a default beside a reference.
  if (Array.isArray(allOf)) return allOf.length === 1 ? typeText(allOf[0], schemas) : 'any'
  if (format === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true)
    return 'intOrString'
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return 'any'
  if (type === 'array') return `[]${typeText(items, schemas)}`
  if (type === 'object')
    return isRecord(additionalProperties) ? `{}${typeText(additionalProperties, schemas)}` : 'any'
  if (type === 'integer') return format === 'int64' ? 'int64' : 'int32'
  return type === 'string' || type === 'boolean' || type === 'number' ? type : 'any'
}

/** A type with fields is known by its name; any other is what it stands for. */
function namedType(name: string, schemas: Schemas): string {
  if (Object.hasOwn(KNOWN, name)) return KNOWN[name] ?? 'any'
  const schema = schemas.get(name)
  if (schema === undefined) return 'any'
  if (isRecord(schema.properties)) return name
  // Nothing that refers to another one: that could go on for ever.
  return '$ref' in schema || 'allOf' in schema ? 'any' : typeText(schema, new Map())
}

function field(object: unknown, name: string): unknown {
  return isRecord(object) && Object.hasOwn(object, name) ? object[name] : undefined
}
