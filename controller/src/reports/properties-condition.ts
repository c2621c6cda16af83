import type { Condition, NodeStatus } from '@akrijs/api'
import { conditionOf, type Finding, type StatusOfNode, worstNode } from './worst-node.js'

/**
 * Reasons of `Discovering` for which a handler has not been asked. The first that a node has is
 * shown.
 */
const FAILURES = ['PropertyForbidden', 'PropertyRefused', 'MissingProperty', 'UnreadableProperty']
/** Reasons of `Discovering` of a handler that has been asked, and so has the properties. */
const ASKED: ReadonlySet<string> = new Set(['InvalidDetails', 'Unreachable', 'HandlerFailed'])

/**
 * The condition `PropertiesResolved` of a Configuration that takes properties from Secrets or
 * ConfigMaps. Agents report it as `Discovering`, which is true as long as any node can discover.
 * @param before the condition until now: with the same status it keeps its time
 * @param now the time, as ISO 8601
 */
export function propertiesCondition(
  nodes: readonly StatusOfNode[],
  before: Condition | undefined,
  now: string,
): Condition {
  return conditionOf('PropertiesResolved', findingOf(nodes), before, now)
}

function findingOf(nodes: readonly StatusOfNode[]): Finding {
  const failing = worstNode(nodes, FAILURES, ({ conditions }) =>
    conditions.find(({ type }) => type === 'Discovering'),
  )
  if (failing !== undefined) return { status: 'False', ...failing }
  if (nodes.some(({ status }) => hasAsked(status)))
    return { status: 'True', reason: 'Resolved', message: 'handlers have all properties' }
  return { status: 'Unknown', reason: 'Waiting', message: 'no handler has been asked yet' }
}

function hasAsked({ conditions }: NodeStatus): boolean {
  return conditions.some(
    ({ type, status, reason }) =>
      (type === 'HandlerConnected' && status === 'True') ||
      (type === 'Discovering' && ASKED.has(reason)),
  )
}
