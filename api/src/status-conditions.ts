import type { Condition, NodeStatus } from './types.js'

type Judgement = NodeStatus['conditions'][number]

/** Which of several nodes speaks for the cluster: the first status of the list that one of them has. */
const SPEAKS: Readonly<Record<Condition['type'], readonly Condition['status'][]>> = {
  // A handler on one node is enough: the device may be at that one only.
  HandlerConnected: ['True', 'Unknown', 'False'],
  Discovering: ['True', 'Unknown', 'False'],
  Ready: ['False', 'Unknown', 'True'],
}

/**
 * How a Configuration stands in the whole cluster, by what each node says of it.
 * @param before - as it stood until now: a condition that stays as it was keeps its time
 * @param now - ISO 8601
 */
export function conditionsOf(
  nodes: Readonly<Record<string, NodeStatus>>,
  before: readonly Condition[],
  now: string,
): readonly Condition[] {
  return (Object.keys(SPEAKS) as Condition['type'][]).flatMap((type): Condition[] => {
    const spoken = summary(type, nodes)
    if (spoken === undefined) return []
    const known = before.find((condition) => condition.type === type)
    return [
      {
        ...spoken,
        lastTransitionTime: known?.status === spoken.status ? known.lastTransitionTime : now,
      },
    ]
  })
}

function summary(
  type: Condition['type'],
  nodes: Readonly<Record<string, NodeStatus>>,
): Judgement | undefined {
  const judgements = Object.entries(nodes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([node, { conditions }]) =>
      conditions.filter((one) => one.type === type).map((judgement) => ({ node, judgement })),
    )
  // Details that a handler refuses are refused everywhere, and nothing but an edit helps.
  const refused = judgements.find(({ judgement }) => judgement.reason === 'InvalidDetails')
  const order = SPEAKS[type]
  const first =
    refused ??
    order
      .map((status) => judgements.find(({ judgement }) => judgement.status === status))
      .find((found) => found !== undefined)
  if (first === undefined || judgements.length === 1) return first?.judgement
  const alike = judgements.filter(
    ({ judgement }) => judgement.status === first.judgement.status,
  ).length
  return {
    ...first.judgement,
    message: `${alike} of ${judgements.length} nodes; ${first.node}: ${first.judgement.message}`,
  }
}
