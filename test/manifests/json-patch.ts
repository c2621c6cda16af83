import { expect } from 'vitest'

/** The part of RFC 6902 that the manifests use. */
export interface PatchOperation {
  readonly op: string
  readonly path: string
  readonly value: unknown
}

/** A patch that adds only absent values, replaces only present ones, and tests only true ones. */
export function fitsTo(object: unknown, patch: readonly PatchOperation[]): void {
  const at = (pointer: string): unknown =>
    pointer
      .slice(1)
      .split('/')
      .reduce((value: unknown, key) => Reflect.get(value as object, key), object)
  for (const { op, path, value } of patch) {
    if (op === 'add') expect(at(path)).toBeUndefined()
    if (op === 'replace') expect(at(path)).toBeDefined()
    if (op === 'test') expect(at(path)).toBe(value)
  }
}
