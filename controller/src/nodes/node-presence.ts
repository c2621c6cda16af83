import type { Compatibility } from '@akrijs/api'
import { type ApiClient, LEASES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { type Clock, valueAt } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import type { FirstSights } from '../first-sights.js'
import { graceLeftMs } from './agent-absence.js'
import { hasOtherAgent } from './node-pods.js'

export type NodePresence =
  /** `left`: the agent was taken off the node, and the node is there. */
  | { readonly state: 'deleted' | 'silent' | 'left' }
  /**
   * A node that is not ready becomes silent at `lostAt`, and the agent of a ready node has left
   * then, by `monotonicMs`.
   */
  | { readonly state: 'present'; readonly lostAt?: number }

export interface NodePresenceOptions {
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly sights: FirstSights
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly graceMs: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** The namespace of the Leases that kubelets renew. */
const LEASE_NAMESPACE = 'kube-node-lease'

/** @throws ApiError, ApiUnreachableError */
export async function nodePresence(
  node: NodeName,
  options: NodePresenceOptions,
  signal: AbortSignal,
): Promise<NodePresence> {
  const { state, client, clock, sights, graceMs } = options
  const key = objectKey('', node)
  const cached = state.nodes.cache.get(key)
  if (cached === undefined) {
    // The watch may not have reported the node yet.
    const found = await state.nodes.api.get(key, { signal })
    return { state: found === undefined ? 'deleted' : 'present' }
  }
  if (cached.ready) {
    const leftMs = graceLeftMs(node, graceMs, options)
    const isLeft = state.reportIndex.presence(node) === 'left'
    if (!isLeft || leftMs === undefined) return { state: 'present' }
    if (leftMs > 0) return { state: 'present', lostAt: clock.monotonicMs() + leftMs }
    const isReplaced = await isReplacedByOther(node, options, signal)
    return { state: isReplaced ? 'present' : 'left' }
  }
  const leases = new Resource(client, LEASES)
  const lease = await leases.get(objectKey(LEASE_NAMESPACE, node), { signal })
  const renewal = String(valueAt(lease, 'spec', 'renewTime'))
  const now = clock.monotonicMs()
  const silentMs = Math.min(now - cached.readySince, sights.ageMs(`Lease ${node}`, renewal))
  return silentMs >= graceMs
    ? { state: 'silent' }
    : { state: 'present', lostAt: now + graceMs - silentMs }
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
    sights,
    compatibility = 'off',
  }: Pick<NodePresenceOptions, 'state' | 'client' | 'sights' | 'compatibility'>,
  signal: AbortSignal,
): Promise<boolean> {
  const report = state.reports.cache.get(objectKey('', node))
  if (compatibility === 'off' || report === undefined) return false
  return hasOtherAgent(report, sights, { client, signal })
}
