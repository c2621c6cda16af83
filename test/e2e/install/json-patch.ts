import { expect } from 'vitest'

/** Of RFC 6902, as far as the manifests use it. */
export interface PatchOperation {
  readonly op: string
  readonly path: string
  readonly value: unknown
}

/** A patch that adds what is not there, replaces what is, and tests what is so. */
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
