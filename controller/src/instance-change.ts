import type { Instance } from '@akrijs/api'
import { type JsonPatch, keyOf } from '@akrijs/kube'
import type { Collection } from './collection.js'
import { unlessOvertaken } from './unless-overtaken.js'

/** What the controller does to an Instance. */
export type InstanceChange =
  | { readonly do: 'nothing' }
  /** No node sees the device or claims a slot any more. */
  | { readonly do: 'delete' }
  /** The patch tests what it builds on. */
  | { readonly do: 'patch'; readonly patch: JsonPatch }

/**
 * Carries out a change. A node that joins, or claims a slot, at the same moment wins: its write
 * changes the version.
 * @returns whether the Instance was changed
 */
export async function changeInstance(
  { cache, api }: Collection<Instance>,
  instance: Instance,
  change: InstanceChange,
  signal: AbortSignal,
): Promise<boolean> {
  if (change.do === 'nothing') return false
  return unlessOvertaken(api, instance, signal, async () => {
    if (change.do === 'patch')
      cache.observe(await api.patch(keyOf(instance), 'json', change.patch, { signal }))
    else {
      const { uid, resourceVersion } = instance.metadata
      const options = { propagationPolicy: 'Background', signal } as const
      await api.delete(keyOf(instance), { uid, resourceVersion }, options)
    }
  })
}
