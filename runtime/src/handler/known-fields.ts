import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'

/** More would not help who reads them. */
const MAX_FIELDS = 30

/**
 * The fields that a mapping may have at a place of what a schema describes, where it has others and may not. Undefined where that is
 * not so, or the schema does not say: libraries that tell of theirs in JSON Schema do (https://standardschema.dev/json-schema).
 */
export function knownFields(
  schema: StandardSchemaV1,
  keys: readonly PropertyKey[],
  value: unknown,
): string[] | undefined {
  if (!isMapping(value)) return undefined
  let node: unknown = jsonSchemaOf(schema)
  for (const key of keys) node = isMapping(node) ? childOf(node, key) : undefined
  if (!isMapping(node) || node.additionalProperties !== false || !isMapping(node.properties))
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
    // Not all that a schema can check has a form there.
    return undefined
  }
}

function childOf(
  { properties, items }: Readonly<Record<string, unknown>>,
  key: PropertyKey,
): unknown {
  if (typeof key === 'number') return items
  return isMapping(properties) && Object.hasOwn(properties, key)
    ? Reflect.get(properties, key)
    : undefined
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
