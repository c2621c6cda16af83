import type { NodeName } from '@akrijs/kube'
import type { ClusterState } from '../cluster-state.js'
import type { FirstSights } from '../first-sights.js'

// For how long the agents of nodes are not there. Each turn of a replica counts again: the
// controller may have seen nothing for a long time.

interface AgentAbsenceOptions {
  readonly state: Pick<ClusterState, 'hasReports' | 'reportIndex'>
  readonly sights: Pick<FirstSights, 'ageMs'>
}

/**
 * For how much longer the agent of a node may be absent, in milliseconds, at least 0. An agent that
 * has left counts from then on: a new agent that did not start may have been there before.
 * @param graceMs how long an agent may be absent, in milliseconds
 * @returns undefined if the agent is there, or the node has no report
 */
export function graceLeftMs(
  node: NodeName,
  graceMs: number,
  { state, sights }: AgentAbsenceOptions,
): number | undefined {
  const presence = (state.hasReports && state.reportIndex.presence(node)) || 'present'
  const ageMs = sights.ageMs(`agent of ${node}`, presence)
  const isThere = presence === 'present' || presence === 'silent'
  return isThere ? undefined : Math.max(0, graceMs - ageMs)
}

/** @returns undefined if the agent is there, or nothing in its report counts */
export function silentMs(
  node: NodeName,
  { state, sights }: AgentAbsenceOptions,
): number | undefined {
  const presence = state.reportIndex.presence(node)
  const isSilent = presence !== undefined && presence !== 'present' && presence !== 'deleted'
  const ageMs = sights.ageMs(`silence of ${node}`, String(isSilent))
  return isSilent ? ageMs : undefined
}

/** The same of an agent that has never reported. */
export function unreportedMs(
  node: NodeName,
  { state, sights }: AgentAbsenceOptions,
): number | undefined {
  const isUnreported = state.reportIndex.unreported.has(node)
  const ageMs = sights.ageMs(`first report of ${node}`, String(isUnreported))
  return isUnreported ? ageMs : undefined
}
