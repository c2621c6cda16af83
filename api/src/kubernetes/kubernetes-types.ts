/** The specs of Kubernetes in a Configuration. */
export type Root = 'podSpec' | 'jobSpec' | 'deploymentSpec' | 'serviceSpec'

/**
 * The fields of a version of Kubernetes, and their types. The type of a field is a text: one of
 * {@link SCALARS}, the name of a type in `types`, `[]` and a type for a list, or `{}` and a type
 * for a map. A `!` at the end marks a required field.
 */
export interface KubernetesTypes {
  /** The version of Kubernetes, such as `v1.34.0`. */
  readonly version: string
  readonly roots: Readonly<Record<Root, string>>
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>
}

const SCALARS = [
  'string',
  'boolean',
  'int32',
  'int64',
  'number',
  'quantity',
  'intOrString',
  'any',
] as const
export type Scalar = (typeof SCALARS)[number]

export type FieldType =
  | { readonly kind: 'scalar'; readonly scalar: Scalar }
  | { readonly kind: 'list'; readonly of: string }
  | { readonly kind: 'map'; readonly of: string }
  | {
      readonly kind: 'object'
      readonly fields: Readonly<Record<string, string>>
      /** The names of required fields. */
      readonly required: readonly string[]
    }

/** Parsed types: a Configuration may have hundreds of thousands of values. */
const PARSED = new WeakMap<KubernetesTypes, Map<string, FieldType>>()

/** Parses the type of a field of {@link KubernetesTypes}. An unknown type may have any value. */
export function fieldType(text: string, types: KubernetesTypes): FieldType {
  const parsed = PARSED.get(types) ?? new Map<string, FieldType>()
  PARSED.set(types, parsed)
  const cached = parsed.get(text)
  if (cached !== undefined) return cached
  const type = parseType(text.endsWith('!') ? text.slice(0, -1) : text, types)
  parsed.set(text, type)
  return type
}

function parseType(name: string, { types }: KubernetesTypes): FieldType {
  if (name.startsWith('[]')) return { kind: 'list', of: name.slice(2) }
  if (name.startsWith('{}')) return { kind: 'map', of: name.slice(2) }
  const scalar = SCALARS.find((candidate) => candidate === name)
  if (scalar !== undefined) return { kind: 'scalar', scalar }
  const fields = Object.hasOwn(types, name) ? types[name] : undefined
  if (fields === undefined) return { kind: 'scalar', scalar: 'any' }
  return {
    kind: 'object',
    fields,
    required: Object.keys(fields).filter((key) => fields[key]?.endsWith('!')),
  }
}
