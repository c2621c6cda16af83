import { isUnlabelled, labelPatch } from '@akrijs/api'
import type { ObjectKey, ReconcileResult } from '@akrijs/kube'
import { isDeleted } from './kubernetes-objects.js'
import type { Term } from './term.js'
import { unlessOvertaken } from './unless-overtaken.js'

/**
 * Labels an Instance of a program that writes no labels, such as an agent of Akri 0.13. Agents
 * watch labelled Instances only.
 */
export async function labelInstance(
  key: ObjectKey,
  { state: { instances } }: Term,
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
