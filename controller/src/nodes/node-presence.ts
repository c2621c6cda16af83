import { LEASES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import type { Term } from '../term.js'
import { hasOtherAgent } from './node-pods.js'

// Whether nodes and their agents are there, and for how long they have not been. Each term of a
// replica counts again: the controller may have seen nothing for a long time.

export type NodePresence =
  /** `left`: the agent was taken off the node, and the node is there. */
  | { readonly state: 'deleted' | 'silent' | 'left' }
  /** After `lostInMs` a node that is not ready is silent, or the agent of a ready node has left. */
  | { readonly state: 'present'; readonly lostInMs?: number }

/** The namespace of the Leases that kubelets renew. */
const LEASE_NAMESPACE = 'kube-node-lease'

/** @throws ApiError, ApiUnreachableError */
export async function nodePresence(
  node: NodeName,
  term: Term,
  signal: AbortSignal,
): Promise<NodePresence> {
  const { state, client, clock, sights, nodeGraceMs } = term
  const key = objectKey('', node)
  const cached = state.nodes.cache.get(key)
  if (cached === undefined) {
    // The watch may not have reported the node yet.
    const found = await state.nodes.api.get(key, { signal })
    return { state: found === undefined ? 'deleted' : 'present' }
  }
  if (cached.ready) {
    const leftMs = graceLeftMs(node, term)
    const isLeft = state.reportIndex.presence(node) === 'left'
    if (!isLeft || leftMs === undefined) return { state: 'present' }
    if (leftMs > 0) return { state: 'present', lostInMs: leftMs }
    const isReplaced = await isReplacedByOther(node, term, signal)
    return { state: isReplaced ? 'present' : 'left' }
  }
  const leases = new Resource(client, LEASES)
  const lease = await leases.get(objectKey(LEASE_NAMESPACE, node), { signal })
  const renewal = String(valueAt(lease, 'spec', 'renewTime'))
  const now = clock.monotonicMs()
  const silentForMs = Math.min(now - cached.readySince, sights.ageMs(`Lease ${node}`, renewal))
  return silentForMs >= nodeGraceMs
    ? { state: 'silent' }
    : { state: 'present', lostInMs: nodeGraceMs - silentForMs }
}

/**
 * Whether an agent of Akri 0.13 has taken the place of the agent of a node: it writes no report.
 * @throws ApiError, ApiUnreachableError
 */
export async function isReplacedByOther(
  node: NodeName,
  { state, client, sights, compatibility = 'off' }: Term,
  signal: AbortSignal,
): Promise<boolean> {
  const report = state.reports.cache.get(objectKey('', node))
  if (compatibility === 'off' || report === undefined) return false
  return hasOtherAgent(report, sights, { client, signal })
}

/**
 * For how much longer the agent of a node may be absent, in milliseconds, at least 0. An agent that
 * has left counts from then on: a new agent that did not start may have been there before.
 * @returns undefined if the agent is there, or the node has no report
 */
export function graceLeftMs(
  node: NodeName,
  { state, sights, nodeGraceMs }: Term,
): number | undefined {
  const presence = (state.hasReports && state.reportIndex.presence(node)) || 'present'
  const ageMs = sights.ageMs(`agent of ${node}`, presence)
  const isThere = presence === 'present' || presence === 'silent'
  return isThere ? undefined : Math.max(0, nodeGraceMs - ageMs)
}

/** @returns undefined if the agent is there, or nothing in its report counts */
export function silentMs(node: NodeName, { state, sights }: Term): number | undefined {
  const presence = state.reportIndex.presence(node)
  const isSilent = presence !== undefined && presence !== 'present' && presence !== 'deleted'
  const ageMs = sights.ageMs(`silence of ${node}`, String(isSilent))
  return isSilent ? ageMs : undefined
}

/** The same of an agent that has never reported. */
export function unreportedMs(node: NodeName, { state, sights }: Term): number | undefined {
  const isUnreported = state.reportIndex.unreportedOn(node) !== undefined
  const ageMs = sights.ageMs(`first report of ${node}`, String(isUnreported))
  return isUnreported ? ageMs : undefined
}
