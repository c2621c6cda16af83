/** What of a Configuration is Kubernetes' own. */
export type Root = 'podSpec' | 'jobSpec' | 'deploymentSpec' | 'serviceSpec'

/**
 * The fields that a Kubernetes knows, as little as is needed to tell which are there and what they hold. The type of a field is
 * a text: one of {@link SCALARS}, the name of a type in `types`, `[]` and a type for a list, `{}` and a type for a map. A `!`
 * behind it says that the field is required.
 */
export interface KubernetesTypes {
  /** Of the Kubernetes, such as `v1.34.0`. */
  readonly version: string
  readonly roots: Readonly<Record<Root, string>>
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>
}

export const SCALARS = [
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
      /** The names of those that are required. */
      readonly required: readonly string[]
    }

/** Configurations may have hundreds of thousands of values: what a text means is found out once. */
const MEANINGS = new WeakMap<KubernetesTypes, Map<string, FieldType>>()

/** What a text of {@link KubernetesTypes} means. A type that is not there may hold anything. */
export function fieldType(text: string, types: KubernetesTypes): FieldType {
  const meanings = MEANINGS.get(types) ?? new Map<string, FieldType>()
  MEANINGS.set(types, meanings)
  const known = meanings.get(text)
  if (known !== undefined) return known
  const type = parseType(text.endsWith('!') ? text.slice(0, -1) : text, types)
  meanings.set(text, type)
  return type
}

function parseType(name: string, { types }: KubernetesTypes): FieldType {
  if (name.startsWith('[]')) return { kind: 'list', of: name.slice(2) }
  if (name.startsWith('{}')) return { kind: 'map', of: name.slice(2) }
  const scalar = SCALARS.find((one) => one === name)
  if (scalar !== undefined) return { kind: 'scalar', scalar }
  const fields = Object.hasOwn(types, name) ? types[name] : undefined
  if (fields === undefined) return { kind: 'scalar', scalar: 'any' }
  return {
    kind: 'object',
    fields,
    required: Object.keys(fields).filter((key) => fields[key]?.endsWith('!')),
  }
}
