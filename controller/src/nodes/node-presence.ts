import { type ApiClient, LEASES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import * as z from 'zod'
import type { ClusterState } from '../cluster-state.js'

export type NodePresence =
  | { readonly state: 'deleted' | 'silent' }
  /** A node that is not ready becomes silent at `silentAt`, in milliseconds since the epoch. */
  | { readonly state: 'present'; readonly silentAt?: number }

export interface NodePresenceOptions {
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly graceMs: number
}

/** The namespace of the Leases that kubelets renew. */
const LEASE_NAMESPACE = 'kube-node-lease'

const lease = z.object({
  spec: z.object({ renewTime: z.string().transform((time) => Date.parse(time)) }),
})

/** @throws ApiError, ApiUnreachableError */
export async function nodePresence(
  node: NodeName,
  { state, client, clock, graceMs }: NodePresenceOptions,
  signal: AbortSignal,
): Promise<NodePresence> {
  const key = objectKey('', node)
  const cached = state.nodes.cache.get(key)
  if (cached === undefined) {
    // The watch may not have reported the node yet.
    const found = await state.nodes.api.get(key, { signal })
    return { state: found === undefined ? 'deleted' : 'present' }
  }
  if (cached.ready) return { state: 'present' }
  const leases = new Resource(client, LEASES)
  const found = lease.safeParse(await leases.get(objectKey(LEASE_NAMESPACE, node), { signal }))
  const renewedAt = found.data?.spec.renewTime || 0
  const silentAt = Math.max(cached.readySince, renewedAt) + graceMs
  return silentAt <= clock.wallMs() ? { state: 'silent' } : { state: 'present', silentAt }
}
