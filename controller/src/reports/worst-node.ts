import type { Condition, NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'

/** The status of a Configuration on a node. */
export interface StatusOfNode {
  readonly node: NodeName
  readonly status: NodeStatus
}

/** A condition without its type and its time. */
export type Finding = Pick<Condition, 'status' | 'reason' | 'message'>

type NodeFinding = Pick<Finding, 'reason' | 'message'>

/**
 * The finding with the first of the reasons that any node has; of these nodes the first by name.
 * @param reasons the worst first; others do not count
 * @returns undefined if no node has any of the reasons
 */
export function worstNode(
  nodes: readonly StatusOfNode[],
  reasons: readonly string[],
  findingOf: (status: NodeStatus) => NodeFinding | undefined,
): NodeFinding | undefined {
  const found = nodes
    .flatMap(({ node, status }) => {
      const finding = findingOf(status)
      const rank = finding === undefined ? -1 : reasons.indexOf(finding.reason)
      return finding === undefined || rank < 0 ? [] : { node, finding, rank }
    })
    .sort((a, b) => a.rank - b.rank || (a.node < b.node ? -1 : 1))
  const [first] = found
  if (first === undefined) return undefined
  const { reason, message } = first.finding
  const same = found.filter(({ rank }) => rank === first.rank)
  const where = `${same.length} of ${nodes.length} nodes; ${first.node}: `
  return { reason, message: nodes.length === 1 ? message : where + message }
}

/** @param before the condition until now: with the same status it keeps its time */
export function conditionOf<Type extends Condition['type']>(
  type: Type,
  finding: Finding,
  before: Condition | undefined,
  now: string,
): Condition {
  const lastTransitionTime = before?.status === finding.status ? before.lastTransitionTime : now
  return { type, ...finding, lastTransitionTime }
}
