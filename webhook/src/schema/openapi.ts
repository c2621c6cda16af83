import type { KubernetesTypes, Root } from '@akrijs/api'
import { isRecord, valueAt } from '@akrijs/runtime'

/** The names of the roots in OpenAPI documents of Kubernetes. */
const ROOTS: Readonly<Record<Root, string>> = {
  podSpec: 'io.k8s.api.core.v1.PodSpec',
  jobSpec: 'io.k8s.api.batch.v1.JobSpec',
  deploymentSpec: 'io.k8s.api.apps.v1.DeploymentSpec',
  serviceSpec: 'io.k8s.api.core.v1.ServiceSpec',
}

/**
 * Types with a parser of their own in Kubernetes. Versions of Kubernetes describe them differently.
 */
const SPECIAL: Readonly<Record<string, string>> = {
  'io.k8s.apimachinery.pkg.api.resource.Quantity': 'quantity',
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString': 'intOrString',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Time': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Duration': 'string',
}

type Schemas = ReadonlyMap<string, Record<string, unknown>>

/** The schemas of a document of OpenAPI 2 (`/openapi/v2`) or 3 (`/openapi/v3/…`). */
export function schemasIn(document: unknown): Schemas {
  const found = valueAt(document, 'definitions') ?? valueAt(document, 'components', 'schemas')
  return new Map(
    isRecord(found)
      ? Object.entries(found).filter((entry): entry is [string, Record<string, unknown>] =>
          isRecord(entry[1]),
        )
      : [],
  )
}

/**
 * The types that specs in Configurations need, from the schemas of a cluster.
 * @returns undefined if a root is missing: the documents are incomplete
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
  // OpenAPI 3 puts a default beside a reference in this form.
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

/** A type with fields is referred to by its name. Any other type is resolved. */
function namedType(name: string, schemas: Schemas): string {
  if (Object.hasOwn(SPECIAL, name)) return SPECIAL[name] ?? 'any'
  const schema = schemas.get(name)
  if (schema === undefined) return 'any'
  if (isRecord(schema.properties)) return name
  // References to other types are not followed: they might be a cycle.
  return '$ref' in schema || 'allOf' in schema ? 'any' : typeText(schema, new Map())
}
