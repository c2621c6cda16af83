import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '@akrijs/runtime'
import type { JsonPatch } from './objects.js'

// JSON patches (RFC 6902), as an API server executes them. Pure.

type Operation = JsonPatch[number]
type Container = Record<string, unknown> | unknown[]

const OWN = { configurable: true, enumerable: true, writable: true }

/**
 * Applies a JSON patch to a copy of the document.
 * @returns the new document, or the reason why the whole patch is refused
 */
export function applyJsonPatch(
  document: unknown,
  patch: JsonPatch,
): { readonly value: unknown } | { readonly refused: string } {
  const root = { document: structuredClone(document) }
  for (const operation of patch) {
    const refused = applyOperation(root, operation)
    if (refused !== undefined) return { refused }
  }
  return { value: root.document }
}

function applyOperation(root: { document: unknown }, operation: Operation): string | undefined {
  const { op, path } = operation
  const segments = path
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
  let parent: Container = root
  let key = 'document'
  for (const segment of segments) {
    const child = childOf(parent, key)
    if (!isContainer(child)) return `${op} ${path}: the path does not exist`
    parent = child
    key = segment
  }
  const present = Array.isArray(parent)
    ? indexOf(parent, key) !== undefined
    : Object.hasOwn(parent, key)
  if (op === 'add')
    return add(parent, key, operation.value) ? undefined : `add ${path}: no such index`
  if (!present) return `${op} ${path}: the path does not exist`
  if (op === 'test')
    return isDeepStrictEqual(childOf(parent, key), operation.value)
      ? undefined
      : `test ${path}: the value is another`
  if (op === 'replace') set(parent, key, operation.value)
  else if (op === 'remove') remove(parent, key)
  else return `${String(op)} is not supported`
  return undefined
}

function isContainer(value: unknown): value is Container {
  return Array.isArray(value) || isRecord(value)
}

function indexOf(list: readonly unknown[], key: string): number | undefined {
  return /^(0|[1-9]\d*)$/.test(key) && Number(key) < list.length ? Number(key) : undefined
}

function childOf(parent: Container, key: string): unknown {
  if (!Array.isArray(parent)) return Object.hasOwn(parent, key) ? parent[key] : undefined
  const index = indexOf(parent, key)
  return index === undefined ? undefined : parent[index]
}

function set(parent: Container, key: string, value: unknown): void {
  const copy = structuredClone(value)
  if (Array.isArray(parent)) parent[Number(key)] = copy
  // An assignment would not set the key `__proto__`.
  else Object.defineProperty(parent, key, { ...OWN, value: copy })
}

function add(parent: Container, key: string, value: unknown): boolean {
  if (!Array.isArray(parent)) {
    set(parent, key, value)
    return true
  }
  const index = key === '-' || key === String(parent.length) ? parent.length : indexOf(parent, key)
  if (index === undefined) return false
  parent.splice(index, 0, structuredClone(value))
  return true
}

function remove(parent: Container, key: string): void {
  if (Array.isArray(parent)) parent.splice(Number(key), 1)
  else delete parent[key]
}
