import { isRecord } from '@akrijs/runtime'
import * as z from 'zod'
import type { NamedObject } from './brokers/broker-template.js'

// What the API server notes of who has applied which fields of an object (`managedFields`, structured-merge-diff's FieldsV1):
// `f:` before a key, `k:` before what an element of a list is known by, `v:` before an element itself. A field with nothing in
// it is applied as a whole. Whoever changes a field in another way takes it away from who has applied it.

export type FieldSet = Readonly<Record<string, unknown>>

/** Who appears in `managedFields`. */
export const FIELD_MANAGER = 'akri-controller'

const managed = z.object({
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

/** The fields that are as the controller has applied them; none where it has applied nothing. */
export function appliedFields(object: unknown): FieldSet {
  const parsed = managed.safeParse(object)
  if (!parsed.success) return {}
  const { managedFields } = parsed.data.metadata
  return (
    managedFields.find(
      ({ manager, operation }) => manager === FIELD_MANAGER && operation === 'Apply',
    )?.fieldsV1 ?? {}
  )
}

/** Whether nobody has changed anything of what is to be applied since it was. */
export function isAsApplied(
  { fields }: { readonly fields: FieldSet },
  { metadata, spec }: NamedObject,
): boolean {
  const { labels, annotations, ownerReferences } = metadata
  return isAmong({ metadata: { labels, annotations, ownerReferences }, spec }, fields)
}

/** Whether all of a value is among the fields. */
export function isAmong(value: unknown, fields: unknown): boolean {
  // What says nothing may be left out.
  if (value === null || value === undefined) return true
  if (Array.isArray(value)) {
    if (value.length === 0) return true
    return (
      isRecord(fields) &&
      (isWhole(fields) || value.every((element) => isElementAmong(element, fields)))
    )
  }
  if (!isRecord(value)) return fields !== undefined
  const entries = Object.entries(value)
  if (entries.length === 0) return true
  return (
    isRecord(fields) &&
    (isWhole(fields) || entries.every(([key, inner]) => isAmong(inner, fields[`f:${key}`])))
  )
}

function isElementAmong(element: unknown, fields: FieldSet): boolean {
  if (!isRecord(element)) return `v:${JSON.stringify(element)}` in fields
  return Object.entries(fields).some(
    ([path, inner]) => path.startsWith('k:') && isKnownBy(element, path) && isAmong(element, inner),
  )
}

/** A key may be left out of the element where it has a default. */
function isKnownBy(element: FieldSet, path: string): boolean {
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
