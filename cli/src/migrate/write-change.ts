import { API_VERSION, CONFIGURATIONS, INSTANCES, parseObjectMeta } from '@akrijs/api'
import { type ApiClient, type JsonPatch, keyParts, pointer, Resource } from '@akrijs/kube'
import { keptFields } from './field-owners.js'
import type { ObjectChange } from './migration-plan.js'

/**
 * Writes a change, if the object has the version that the plan was made for. If it ends between two
 * writes, the next plan has the rest.
 * @throws ApiError, ApiUnreachableError
 */
export async function writeChange(
  { kind, key, uid, resourceVersion, patch, status, owners = [] }: ObjectChange,
  client: ApiClient,
  signal: AbortSignal,
): Promise<void> {
  const api = new Resource(client, kind === 'Instance' ? INSTANCES : CONFIGURATIONS)
  const patchAt = (version: string | undefined, changes: JsonPatch) => {
    const path = pointer('metadata', 'resourceVersion')
    return api.patch(key, 'json', [{ op: 'test', path, value: version }, ...changes], { signal })
  }
  if (patch.length > 0) await patchAt(resourceVersion, patch)
  if (status !== undefined) {
    const changes = { metadata: { uid }, status }
    await api.patch(key, 'merge', changes, { signal, subresource: 'status' })
  }
  let found: unknown
  for (const { manager, metadata: fields, spec } of owners) {
    // The uid: an object that is gone must not be created.
    const metadata = { ...fields, ...keyParts(key), uid }
    const object = { apiVersion: API_VERSION, kind, metadata, spec }
    found = await api.apply(key, object, manager, { signal })
  }
  const metadata = parseObjectMeta(found)
  if (metadata === undefined) return
  const path = pointer('metadata', 'managedFields')
  const value = keptFields(found, owners)
  await patchAt(metadata.resourceVersion, [{ op: 'replace', path, value }])
}
