import { fieldOf, isRecord } from '@akrijs/runtime'
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'

/** The longest list of fields that helps a reader. */
const MAX_FIELDS = 30

/**
 * The fields that a schema allows in the mapping at a path; undefined if the schema allows any.
 * Works with libraries that give their schemas as JSON Schema (https://standardschema.dev/json-schema),
 * such as zod and arktype, and with valibot.
 */
export function allowedFields(
  schema: StandardSchemaV1,
  keys: readonly PropertyKey[],
): readonly string[] | undefined {
  let node: unknown = jsonSchemaOf(schema) ?? schema
  for (const key of keys) node = childOf(node, key)
  const fields = fieldsOf(node)
  const names = isRecord(fields) ? Object.keys(fields) : []
  return names.length === 0 || names.length > MAX_FIELDS ? undefined : names
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

function childOf(node: unknown, key: PropertyKey): unknown {
  const items = fieldOf(node, 'items') ?? fieldOf(unwrapped(node), 'item')
  return typeof key === 'number' ? items : fieldOf(fieldsOf(node, false), key)
}

/** @param strict only if the mapping takes no other fields */
function fieldsOf(node: unknown, strict = true): unknown {
  const mapping = unwrapped(node)
  const isStrict =
    fieldOf(mapping, 'additionalProperties') === false ||
    fieldOf(mapping, 'type') === 'strict_object'
  if (strict && !isStrict) return undefined
  return fieldOf(mapping, 'properties') ?? fieldOf(mapping, 'entries')
}

/** The schema that one of valibot's is about, such as that of an optional field. */
function unwrapped(node: unknown): unknown {
  const inner = fieldOf(node, 'wrapped')
  return inner === undefined ? node : unwrapped(inner)
}
