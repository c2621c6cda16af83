import { type Condition, NO_HANDLER, type NodeStatus } from '@akrijs/api'
import { conditionOf, type Finding, type StatusOfNode, worstNode } from './worst-node.js'

/** Reasons for which a handler of a node is not ready. The first that a node has is shown. */
const FAILURES = ['InternalError', 'HandlerLost', 'HandlerFailed', 'Unreachable']

/**
 * The condition `HandlersReady` of a Configuration: whether its handler works on each node that has
 * it. Agents report it as `HandlerConnected`, which is true as long as it works on any node. A node
 * without the handler does not count, except for one whose devices the handler has left: nothing
 * else tells on which nodes a handler should be.
 * @param nodes without those whose agents are silent
 * @param before the condition until now: with the same status it keeps its time
 * @param now the time, as ISO 8601
 * @returns undefined if no node tells of a handler, as for a Configuration whose name is taken
 */
export function handlersCondition(
  nodes: readonly StatusOfNode[],
  before: Condition | undefined,
  now: string,
): Condition | undefined {
  const connections = nodes.flatMap(({ status }) => connectionOf(status) ?? [])
  if (connections.length === 0) return undefined
  const failing = worstNode(nodes, FAILURES, failureOf)
  const finding: Finding =
    failing === undefined ? connectedOn(connections) : { status: 'False', ...failing }
  return conditionOf('HandlersReady', finding, before, now)
}

function connectedOn(connections: readonly NodeStatus['conditions'][number][]): Finding {
  const total = connections.length
  const connected = connections.filter(({ status }) => status === 'True').length
  const missing = connections.filter(({ reason }) => reason === NO_HANDLER)
  const [first] = missing
  if (first !== undefined && missing.length === total)
    return { status: 'False', reason: NO_HANDLER, message: first.message }
  if (connected > 0 && connected + missing.length === total) {
    const message = `the handler works on ${connected} of ${total} nodes`
    const others = first === undefined ? '' : `; the others do not have it: ${first.message}`
    return { status: 'True', reason: 'HandlersWork', message: message + others }
  }
  return { status: 'Unknown', reason: 'Waiting', message: 'not every handler has answered yet' }
}

/** Devices that a handler left make `Ready` false: the handler may have left with its endpoint. */
function failureOf(status: NodeStatus) {
  const lost = status.conditions.find(({ reason }) => reason === 'HandlerLost')
  if (lost !== undefined) return lost
  const connection = connectionOf(status)
  return connection?.status === 'False' ? connection : undefined
}

function connectionOf({ conditions }: NodeStatus) {
  return conditions.find(({ type }) => type === 'HandlerConnected')
}
