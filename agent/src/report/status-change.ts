import { isDeepStrictEqual } from 'node:util'
import { type Configuration, parseObjectMeta } from '@akrijs/api'
import { isRecord } from '@akrijs/runtime'

// The controller writes the status of a Configuration often. An agent reads only a number of it.

/** Whether an object of the server has the spec and the metadata of a Configuration. */
export function isStatusChange(
  object: unknown,
  known: Pick<Configuration, 'metadata'> | undefined,
): boolean {
  // A server without generations counts no changes of the spec.
  if (known === undefined || known.metadata.generation === 0) return false
  const metadata = parseObjectMeta(object)
  return (
    metadata !== undefined &&
    isDeepStrictEqual(
      { ...metadata, resourceVersion: '' },
      { ...known.metadata, resourceVersion: '' },
    )
  )
}

/** How many nodes report on a Configuration. */
export function reportingNodes(object: unknown): number {
  const status = isRecord(object) && isRecord(object.status) ? object.status : {}
  const { reporting } = isRecord(status.nodeCounts) ? status.nodeCounts : {}
  return typeof reporting === 'number' ? reporting : 0
}
