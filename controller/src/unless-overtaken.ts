import { parseObjectMeta } from '@akrijs/api'
import { ApiError, keyOf, type Resource } from '@akrijs/kube'
import type { KubernetesObject } from './kubernetes-objects.js'

/**
 * Writes a change that tests the state that it builds on. If the object has changed or gone
 * meanwhile, nothing is written, and the watch event starts the next reconcile.
 * @returns whether the change was written
 * @throws ApiError if the API server refuses the write itself
 */
export async function unlessOvertaken(
  api: Resource,
  object: KubernetesObject,
  signal: AbortSignal,
  write: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await write()
    return true
  } catch (error) {
    if (ApiError.is(error, 404) || ApiError.is(error, 409)) return false
    // A failed test and a violated schema give the same status.
    if (!ApiError.is(error, 422)) throw error
    const current = parseObjectMeta(await api.get(keyOf(object), { signal }))
    if (current?.resourceVersion === object.metadata.resourceVersion) throw error
    return false
  }
}
