import { isRecord } from '@akrijs/runtime'
import * as z from 'zod'

// The API server records in `managedFields` which manager applied which fields of an object. The
// format is FieldsV1 of structured-merge-diff: `f:` precedes a field, `k:` the key fields of a list
// element, `v:` a list element. An empty set stands for the whole field. A change by another
// manager removes the field from the set of the first.

/** An object that the controller applies. */
export interface NamedObject {
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}

export type FieldSet = Readonly<Record<string, unknown>>

/** The name of the controller in `managedFields`. */
export const FIELD_MANAGER = 'akri-controller'

const managedFieldsSchema = z.object({
  metadata: z.object({
    managedFields: z.array(
      z.object({
        manager: z.string().catch(''),
        operation: z.string().catch(''),
        fieldsV1: z.record(z.string(), z.unknown()).catch({}),
      }),
    ),
  }),
})

/** The fields that have the values that the controller applied. */
export function appliedFields(object: unknown): FieldSet {
  const { data } = managedFieldsSchema.safeParse(object)
  const applied = data?.metadata.managedFields.find(
    ({ manager, operation }) => manager === FIELD_MANAGER && operation === 'Apply',
  )
  return applied?.fieldsV1 ?? {}
}

/** Whether all fields of an object have the values that the controller applied. */
export function isAsApplied(
  { applied }: { readonly applied: string },
  { metadata, spec }: NamedObject,
): boolean {
  const { labels, annotations, ownerReferences } = metadata
  return containsValue(parsed(applied), {
    metadata: { labels, annotations, ownerReferences },
    spec,
  })
}

/** Whether a field set contains all fields of a value. */
export function containsValue(fields: unknown, value: unknown): boolean {
  if (isEmpty(value)) return true
  if (typeof value !== 'object' || value === null) return fields !== undefined
  if (!isRecord(fields)) return false
  if (isWhole(fields)) return true
  if (!Array.isArray(value))
    return Object.entries(value).every(([key, inner]) => containsValue(fields[`f:${key}`], inner))
  const elementsOf = keyedElements(fields)
  return value.every((element) =>
    isRecord(element)
      ? elementsOf(element).some((inner) => containsValue(inner, element))
      : `v:${JSON.stringify(element)}` in fields,
  )
}

/** The API server may leave out an empty value, and an object that has only empty values. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  if (isRecord(value)) return Object.values(value).every(isEmpty)
  return value === null || value === undefined
}

/**
 * Finds the elements of a list in a field set whose key fields an element has. An element may leave
 * out a key field that has a default. A list can have ten thousands of elements, so each is found
 * by the value of its first key field.
 */
function keyedElements(fields: FieldSet): (element: FieldSet) => readonly unknown[] {
  const elements = Object.entries(fields).flatMap(([path, inner]) => {
    const key = path.startsWith('k:') ? parsed(path.slice(2)) : undefined
    const [first] = isRecord(key) ? Object.keys(key).sort() : []
    return isRecord(key) && first !== undefined ? { key, first, inner } : []
  })
  const byFirst = new Map<string, (typeof elements)[number][]>()
  for (const element of elements) {
    const id = JSON.stringify([element.first, element.key[element.first]])
    const same = byFirst.get(id) ?? []
    same.push(element)
    byFirst.set(id, same)
  }
  const firsts = new Set(elements.map(({ first }) => first))
  return (element) =>
    [...firsts]
      .flatMap((first) =>
        element[first] === undefined
          ? elements
          : (byFirst.get(JSON.stringify([first, element[first]])) ?? []),
      )
      .filter(({ key }) =>
        Object.entries(key).every(([name, value]) => [undefined, value].includes(element[name])),
      )
      .map(({ inner }) => inner)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isWhole(fields: FieldSet): boolean {
  return Object.keys(fields).every((path) => path === '.')
}
