import { isRecord } from '@akrijs/runtime'
import * as z from 'zod'
import type { NamedObject } from './brokers/broker-template.js'

// The API server records in `managedFields` which manager applied which fields of an object. The
// format is FieldsV1 of structured-merge-diff: `f:` precedes a field, `k:` the key fields of a list
// element, `v:` a list element. An empty set stands for the whole field. A change by another
// manager removes the field from the set of the first.

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
  { fields }: { readonly fields: FieldSet },
  { metadata, spec }: NamedObject,
): boolean {
  const { labels, annotations, ownerReferences } = metadata
  return containsValue(fields, { metadata: { labels, annotations, ownerReferences }, spec })
}

/** Whether a field set contains all fields of a value. */
export function containsValue(fields: unknown, value: unknown): boolean {
  if (isEmpty(value)) return true
  if (typeof value !== 'object' || value === null) return fields !== undefined
  if (!isRecord(fields)) return false
  if (isWhole(fields)) return true
  return Array.isArray(value)
    ? value.every((element) => containsElement(fields, element))
    : Object.entries(value).every(([key, inner]) => containsValue(fields[`f:${key}`], inner))
}

/** The API server may leave out an empty value, and an object that has only empty values. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  if (isRecord(value)) return Object.values(value).every(isEmpty)
  return value === null || value === undefined
}

function containsElement(fields: FieldSet, element: unknown): boolean {
  if (!isRecord(element)) return `v:${JSON.stringify(element)}` in fields
  return Object.entries(fields).some(
    ([path, inner]) =>
      path.startsWith('k:') && hasKey(element, path) && containsValue(inner, element),
  )
}

/** An element may leave out a key field that has a default. */
function hasKey(element: FieldSet, path: string): boolean {
  const keys = parsed(path.slice(2))
  return (
    isRecord(keys) &&
    Object.entries(keys).every(
      ([key, value]) => element[key] === undefined || element[key] === value,
    )
  )
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
