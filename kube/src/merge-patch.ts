import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '@akrijs/runtime'

/**
 * The merge patch (RFC 7396) that makes a document of another document. Lists are written as a
 * whole. Keys whose value is undefined count as absent.
 * @returns undefined if the documents are equal
 */
export function mergePatchOf(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Record<string, unknown> | undefined {
  const patch: [string, unknown][] = []
  for (const [key, value] of Object.entries(before))
    if (value !== undefined && own(after, key) === undefined) patch.push([key, null])
  for (const [key, value] of Object.entries(after)) {
    const known = own(before, key)
    if (value === undefined || isDeepStrictEqual(known, value)) continue
    const inner = isRecord(known) && isRecord(value) ? mergePatchOf(known, value) : value
    if (inner !== undefined) patch.push([key, inner])
  }
  return patch.length === 0 ? undefined : Object.fromEntries(patch)
}

function own(document: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(document, key) ? document[key] : undefined
}
