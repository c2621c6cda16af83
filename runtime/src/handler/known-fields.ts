import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import { fieldOf, isRecord } from '../json.js'

/** The longest list of fields that helps a reader. */
const MAX_FIELDS = 30

/**
 * The fields that the schema allows at a path, if the mapping there has other fields and the schema
 * forbids them; else undefined. Works with libraries that give their schemas as JSON Schema
 * (https://standardschema.dev/json-schema).
 */
export function knownFields(
  schema: StandardSchemaV1,
  keys: readonly PropertyKey[],
  value: unknown,
): string[] | undefined {
  if (!isRecord(value)) return undefined
  let node: unknown = jsonSchemaOf(schema)
  for (const key of keys) node = isRecord(node) ? childOf(node, key) : undefined
  if (!isRecord(node) || node.additionalProperties !== false || !isRecord(node.properties))
    return undefined
  const fields = Object.keys(node.properties)
  const hasOthers = Object.keys(value).some((key) => !fields.includes(key))
  return hasOthers && fields.length > 0 && fields.length <= MAX_FIELDS ? fields : undefined
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
