import type { Compatibility } from '@akrijs/api'
import { type ApiClient, LEASES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import * as z from 'zod'
import type { ClusterState } from '../cluster-state.js'
import type { AbsentAgents } from './absent-agents.js'
import { hasOtherAgent } from './node-pods.js'

export type NodePresence =
  /** `left`: the agent was taken off the node, and the node is there. */
  | { readonly state: 'deleted' | 'silent' | 'left' }
  /**
   * A node that is not ready becomes silent at `lostAt`, and the agent of a ready node has left
   * then, in milliseconds since the epoch.
   */
  | { readonly state: 'present'; readonly lostAt?: number }

export interface NodePresenceOptions {
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly absent: AbsentAgents
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly graceMs: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** The namespace of the Leases that kubelets renew. */
const LEASE_NAMESPACE = 'kube-node-lease'

const lease = z.object({
  spec: z.object({ renewTime: z.string().transform((time) => Date.parse(time)) }),
})

/** @throws ApiError, ApiUnreachableError */
export async function nodePresence(
  node: NodeName,
  { state, client, clock, absent, graceMs, compatibility }: NodePresenceOptions,
  signal: AbortSignal,
): Promise<NodePresence> {
  const key = objectKey('', node)
  const cached = state.nodes.cache.get(key)
  if (cached === undefined) {
    // The watch may not have reported the node yet.
    const found = await state.nodes.api.get(key, { signal })
    return { state: found === undefined ? 'deleted' : 'present' }
  }
  if (cached.ready) {
    const graceLeftMs = absent.graceLeftMs(node)
    const isLeft = state.reportIndex.presence(node) === 'left'
    if (!isLeft || graceLeftMs === undefined) return { state: 'present' }
    if (graceLeftMs > 0) return { state: 'present', lostAt: clock.wallMs() + graceLeftMs }
    const isReplaced = await isReplacedByOther(
      node,
      { state, client, clock, compatibility },
      signal,
    )
    return { state: isReplaced ? 'present' : 'left' }
  }
  const leases = new Resource(client, LEASES)
  const found = lease.safeParse(await leases.get(objectKey(LEASE_NAMESPACE, node), { signal }))
  const renewedAt = found.data?.spec.renewTime || 0
  const lostAt = Math.max(cached.readySince, renewedAt) + graceMs
  return lostAt <= clock.wallMs() ? { state: 'silent' } : { state: 'present', lostAt }
}

/**
 * Whether an agent of the other system has taken the place of the agent of a node: it writes no
 * report.
 * @throws ApiError, ApiUnreachableError
 */
export async function isReplacedByOther(
  node: NodeName,
  {
    state,
    client,
    clock,
    compatibility = 'off',
  }: Pick<NodePresenceOptions, 'state' | 'client' | 'clock' | 'compatibility'>,
  signal: AbortSignal,
): Promise<boolean> {
  const report = state.reports.cache.get(objectKey('', node))
  if (compatibility === 'off' || report === undefined) return false
  return hasOtherAgent(report, clock.wallMs(), { client, signal })
}
