import {
  type Condition,
  type Configuration,
  type ConfigurationStatus,
  heldSlots,
  type Instance,
  type NodeName,
  type NodeStatus,
} from '@akrijs/kube'

export interface StatusMerge {
  readonly configuration: Pick<Configuration, 'metadata' | 'status'>
  /** Those of this Configuration, on whatever node. */
  readonly instances: readonly Instance[]
  readonly node: NodeName
  /** What that node has to say now. */
  readonly report: NodeStatus
  /** ISO 8601. */
  readonly now: string
}

type Judgement = NodeStatus['conditions'][number]

/** Which of several nodes speaks for the cluster: the first status of the list that one of them has. */
const SPEAKS: Readonly<Record<Condition['type'], readonly Condition['status'][]>> = {
  // A handler on one node is enough: the device may be at that one only.
  HandlerConnected: ['True', 'Unknown', 'False'],
  Discovering: ['True', 'Unknown', 'False'],
  Ready: ['False', 'Unknown', 'True'],
}

/** The status of a Configuration in the whole cluster, after a node has said how it stands there. */
export function mergeStatus({ configuration, instances, node, report, now }: StatusMerge): ConfigurationStatus {
  const before = configuration.status
  const nodes = { ...before?.nodes, [node]: report }
  const conditions = (Object.keys(SPEAKS) as Condition['type'][]).flatMap((type): Condition[] => {
    const spoken = summary(type, nodes)
    if (spoken === undefined) return []
    const known = before?.conditions.find((condition) => condition.type === type)
    // A condition that stays as it was keeps its time.
    return [{ ...spoken, lastTransitionTime: known?.status === spoken.status ? known.lastTransitionTime : now }]
  })
  return {
    observedGeneration: configuration.metadata.generation,
    conditions,
    devices: instances.length,
    slots: {
      total: instances.reduce((sum, { spec }) => sum + Math.max(spec.capacity, Object.keys(spec.deviceUsage).length), 0),
      claimed: instances.reduce((sum, { spec }) => sum + heldSlots(spec.deviceUsage), 0),
    },
    nodes,
  }
}

function summary(type: Condition['type'], nodes: Readonly<Record<string, NodeStatus>>): Judgement | undefined {
  const judgements = Object.entries(nodes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([node, { conditions }]) => conditions.filter((one) => one.type === type).map((judgement) => ({ node, judgement })))
  // Details that a handler refuses are refused everywhere, and nothing but an edit helps.
  const refused = judgements.find(({ judgement }) => judgement.reason === 'InvalidDetails')
  const order = SPEAKS[type]
  const first =
    refused ??
    order.map((status) => judgements.find(({ judgement }) => judgement.status === status)).find((found) => found !== undefined)
  if (first === undefined || judgements.length === 1) return first?.judgement
  const alike = judgements.filter(({ judgement }) => judgement.status === first.judgement.status).length
  return { ...first.judgement, message: `${alike} of ${judgements.length} nodes; ${first.node}: ${first.judgement.message}` }
}
