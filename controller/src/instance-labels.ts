import { isUnlabelled, labelPatch } from '@akrijs/api'
import type { ObjectKey, ReconcileResult } from '@akrijs/kube'
import type { ClusterState } from './cluster-state.js'
import { isDeleted } from './kubernetes-objects.js'
import { unlessOvertaken } from './unless-overtaken.js'

/**
 * Labels an Instance of a program that writes no labels: an agent of an earlier version, or of the
 * existing system. Agents watch labelled Instances only.
 */
export async function labelInstance(
  key: ObjectKey,
  { state: { instances } }: { readonly state: Pick<ClusterState, 'instances'> },
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { api, cache } = instances
  const instance = cache.get(key)
  if (instance === undefined || isDeleted(instance) || !isUnlabelled(instance)) return {}
  await unlessOvertaken(api, instance, signal, async () =>
    cache.observe(await api.patch(key, 'merge', labelPatch(instance), { signal })),
  )
  return {}
}
