import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '@akrijs/runtime'

// Which manager owns which field of an object: the rules of server-side apply, with each list as
// one field. Pure.

interface ManagedFields {
  readonly manager: string
  readonly operation: 'Apply' | 'Update'
  readonly fieldsV1?: unknown
}

type Fields = Readonly<Record<string, unknown>>

/** Fields that no manager owns. */
const IDENTITY = ['apiVersion', 'kind', 'status']
const OWNED_METADATA = ['labels', 'annotations', 'ownerReferences', 'finalizers']

/**
 * Applies an object on behalf of a manager (server-side apply).
 * @returns the new object, or the fields that other managers own if `force` is false
 */
export function applyFields(
  before: Fields | undefined,
  applied: Fields,
  manager: string,
  force: boolean,
): { readonly object: Fields } | { readonly conflicts: readonly string[] } {
  const entries = entriesOf(before)
  const isOwn = (entry: ManagedFields) => entry.manager === manager && entry.operation === 'Apply'
  const fields = leavesOf(applied)
  const differing = new Set(
    [...fields].filter((path) => {
      const [old, value] = [valueAt(before, path), valueAt(applied, path)]
      // An empty map says nothing about the fields of the map before.
      return !isDeepStrictEqual(old, value) && !(isRecord(old) && isRecord(value))
    }),
  )
  const others = entries.filter((entry) => !isOwn(entry))
  const conflicts = others.flatMap((entry) =>
    [...leavesIn(entry)].filter((path) => differing.has(path)),
  )
  if (conflicts.length > 0 && !force) return { conflicts }
  const kept = others.map((entry) => without(entry, differing))
  const ownedByOthers = new Set(kept.flatMap((entry) => [...leavesIn(entry)]))
  const object = merge(before ?? {}, applied)
  for (const path of entries.filter(isOwn).flatMap((entry) => [...leavesIn(entry)]))
    if (valueAt(applied, path) === undefined && !ownedByOthers.has(path)) removeAt(object, path)
  return {
    object: withEntries(object, [
      ...kept,
      { manager, operation: 'Apply', fieldsV1: treeOf(fields) },
    ]),
  }
}

/**
 * Gives the fields that a write changed to the manager of the write. A write can also change which
 * manager owns which field.
 */
export function updateFields(before: Fields | undefined, after: Fields, manager: string): Fields {
  const changed = new Set(
    [...leavesOf(before ?? {}), ...leavesOf(after)].filter(
      (path) => !isDeepStrictEqual(valueAt(before, path), valueAt(after, path)),
    ),
  )
  const written = entriesOf(after)
  const base = written.length > 0 ? written : entriesOf(before)
  const entries = base.map((entry) => without(entry, changed))
  const isOwn = (entry: ManagedFields) => entry.manager === manager && entry.operation === 'Update'
  const fields = new Set(
    [...entries.filter(isOwn).flatMap((entry) => [...leavesIn(entry)]), ...changed].filter(
      (path) => valueAt(after, path) !== undefined,
    ),
  )
  const others = entries.filter((entry) => !isOwn(entry))
  if (fields.size === 0) return withEntries(after, others)
  const updated: ManagedFields = { manager, operation: 'Update', fieldsV1: treeOf(fields) }
  return withEntries(after, [...others, updated])
}

function entriesOf(object: Fields | undefined): readonly ManagedFields[] {
  const metadata = object?.metadata
  return isRecord(metadata) && Array.isArray(metadata.managedFields) ? metadata.managedFields : []
}

function withEntries(object: Fields, managedFields: readonly ManagedFields[]): Fields {
  const metadata = isRecord(object.metadata) ? object.metadata : {}
  return { ...object, metadata: { ...metadata, managedFields } }
}

function without(entry: ManagedFields, paths: ReadonlySet<string>): ManagedFields {
  const fields = leavesIn(entry)
  if (![...fields].some((path) => paths.has(path))) return entry
  return { ...entry, fieldsV1: treeOf([...fields].filter((path) => !paths.has(path))) }
}

/** The owned fields of an object. A path is the JSON text of its keys. */
function leavesOf(object: Fields): Set<string> {
  const { metadata, ...rest } = object
  const owned = Object.entries(isRecord(metadata) ? metadata : {}).filter(([key]) =>
    OWNED_METADATA.includes(key),
  )
  const fields = Object.entries(rest).filter(([key]) => !IDENTITY.includes(key))
  return new Set(leaves({ ...Object.fromEntries(fields), metadata: Object.fromEntries(owned) }, []))
}

function leaves(value: unknown, path: readonly string[]): string[] {
  const entries = isRecord(value)
    ? Object.entries(value).filter(([, inner]) => inner !== undefined)
    : []
  if (entries.length > 0) return entries.flatMap(([key, inner]) => leaves(inner, [...path, key]))
  return path.length === 1 && path[0] === 'metadata' ? [] : [JSON.stringify(path)]
}

function leavesIn({ fieldsV1 }: ManagedFields): Set<string> {
  const walk = (tree: unknown, path: readonly string[]): string[] => {
    const keys = isRecord(tree) ? Object.keys(tree).filter((key) => key.startsWith('f:')) : []
    if (keys.length === 0) return path.length === 0 ? [] : [JSON.stringify(path)]
    return keys.flatMap((key) =>
      walk(isRecord(tree) ? tree[key] : undefined, [...path, key.slice(2)]),
    )
  }
  return new Set(walk(fieldsV1, []))
}

function treeOf(paths: Iterable<string>): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  for (const path of paths) {
    let tree = root
    for (const key of keysOf(path)) {
      const inner = tree[`f:${key}`]
      const next = isRecord(inner) ? inner : {}
      tree[`f:${key}`] = next
      tree = next
    }
  }
  return root
}

function keysOf(path: string): string[] {
  return JSON.parse(path) as string[]
}

function valueAt(object: unknown, path: string): unknown {
  return keysOf(path).reduce<unknown>(
    (value, key) => (isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined),
    object,
  )
}

function removeAt(object: Fields, path: string): void {
  const keys = keysOf(path)
  const last = keys.pop()
  const parent = valueAt(object, JSON.stringify(keys))
  if (isRecord(parent) && last !== undefined) delete parent[last]
}

function merge(before: unknown, applied: unknown): Record<string, unknown> {
  const merged: Record<string, unknown> = isRecord(before) ? structuredClone(before) : {}
  for (const [key, value] of Object.entries(isRecord(applied) ? applied : {}))
    merged[key] = isRecord(value) ? merge(merged[key], value) : structuredClone(value)
  return merged
}
