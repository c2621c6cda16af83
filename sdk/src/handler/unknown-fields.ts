import { fieldOf, isRecord } from '@akrijs/runtime'
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'

/** The longest list of fields that helps a reader. */
const MAX_FIELDS = 30

/** The fields of a mapping that its schema forbids, and those that the schema has. */
export interface UnknownFields {
  readonly unknown: readonly string[]
  readonly known: readonly string[]
}

/**
 * The unknown fields of the mapping at a path, and those that the schema allows there; undefined if
 * the schema allows any. Works with libraries that give their schemas as JSON Schema
 * (https://standardschema.dev/json-schema).
 */
export function unknownFields(
  schema: StandardSchemaV1,
  keys: readonly PropertyKey[],
  value: unknown,
): UnknownFields | undefined {
  if (!isRecord(value)) return undefined
  let node: unknown = jsonSchemaOf(schema)
  for (const key of keys) node = isRecord(node) ? childOf(node, key) : undefined
  if (!isRecord(node) || node.additionalProperties !== false || !isRecord(node.properties))
    return undefined
  const known = Object.keys(node.properties)
  if (known.length === 0 || known.length > MAX_FIELDS) return undefined
  return { unknown: Object.keys(value).filter((key) => !known.includes(key)), known }
}

function jsonSchemaOf(schema: StandardSchemaV1): unknown {
  const { jsonSchema }: Partial<StandardJSONSchemaV1.Props> = schema['~standard']
  try {
    return jsonSchema?.input({ target: 'draft-2020-12' })
  } catch {
    // JSON Schema cannot express every check of a schema.
    return undefined
  }
}

function childOf(
  { properties, items }: Readonly<Record<string, unknown>>,
  key: PropertyKey,
): unknown {
  return typeof key === 'number' ? items : fieldOf(properties, key)
}
