import type { Condition, NodeStatus } from './types.js'

type NodeCondition = NodeStatus['conditions'][number]

/** The status of the cluster is the first status in the list that any node has. */
const PRECEDENCE: Readonly<Record<Condition['type'], readonly Condition['status'][]>> = {
  // A handler on a single node is enough: the device may be attached to that node.
  HandlerConnected: ['True', 'Unknown', 'False'],
  Discovering: ['True', 'Unknown', 'False'],
  Ready: ['False', 'Unknown', 'True'],
}

/**
 * Reasons of `False` that count on a single node: every node refuses the same details and the same
 * reference, and nothing but an edit helps.
 */
const REFUSALS: ReadonlySet<string> = new Set(['InvalidDetails', 'PropertyRefused'])

/**
 * The conditions of a Configuration in the cluster, from the conditions on each node.
 * @param before - the conditions until now: a condition with the same status keeps its time
 * @param now - the time, as ISO 8601
 */
export function conditionsOf(
  nodes: Readonly<Record<string, NodeStatus>>,
  before: readonly Condition[],
  now: string,
): readonly Condition[] {
  return (Object.keys(PRECEDENCE) as Condition['type'][]).flatMap((type): Condition[] => {
    const condition = summary(type, nodes)
    if (condition === undefined) return []
    const previous = before.find((candidate) => candidate.type === type)
    return [
      {
        ...condition,
        lastTransitionTime:
          previous?.status === condition.status ? previous.lastTransitionTime : now,
      },
    ]
  })
}

function summary(
  type: Condition['type'],
  nodes: Readonly<Record<string, NodeStatus>>,
): NodeCondition | undefined {
  const all = Object.entries(nodes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([node, { conditions }]) =>
      conditions
        .filter((condition) => condition.type === type)
        .map((condition) => ({ node, condition })),
    )
  const refused = all.find(
    ({ condition }) => condition.status === 'False' && REFUSALS.has(condition.reason),
  )
  const order = PRECEDENCE[type]
  const first =
    refused ??
    order
      .map((status) => all.find(({ condition }) => condition.status === status))
      .find((found) => found !== undefined)
  if (first === undefined || all.length === 1) return first?.condition
  const sameStatus = all.filter(
    ({ condition }) => condition.status === first.condition.status,
  ).length
  return {
    ...first.condition,
    message: `${sameStatus} of ${all.length} nodes; ${first.node}: ${first.condition.message}`,
  }
}
