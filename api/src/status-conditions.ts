import type {
  Condition,
  FoundProblem,
  InstanceCondition,
  NodeConditionType,
  NodeStatus,
} from './types.js'

type NodeCondition = NodeStatus['conditions'][number]

/** The status of the cluster is the first status in the list that any node has. */
const PRECEDENCE: Readonly<Record<NodeConditionType, readonly Condition['status'][]>> = {
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
 * The reason of `HandlerConnected` and of `Ready` on a node without the handler. Nothing says on
 * which nodes a handler should be: such a node decides `Ready` only if no node has the handler.
 */
export const NO_HANDLER = 'NoHandler'

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
  return (Object.keys(PRECEDENCE) as NodeConditionType[]).flatMap((type): Condition[] => {
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

/**
 * Which of the nodes with the same status is quoted: a node with devices tells more than a node
 * that has no such device, and of those a node that left devices out.
 */
function rankOf({ condition: { reason }, devices }: { condition: NodeCondition; devices: number }) {
  if (reason === 'NoDevices') return 3
  if (reason === 'DevicesLeftOut') return devices > 0 ? 0 : 2
  return 1
}

function summary(
  type: NodeConditionType,
  nodes: Readonly<Record<string, NodeStatus>>,
): NodeCondition | undefined {
  const named = Object.entries(nodes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([node, { conditions, devices }]) =>
      conditions
        .filter((condition) => condition.type === type)
        .map((condition) => ({ node, condition, devices })),
    )
  const having = named.filter(({ condition }) => condition.reason !== NO_HANDLER)
  const all = type === 'Ready' && having.length > 0 ? having : named
  const refused = all.find(
    ({ condition }) => condition.status === 'False' && REFUSALS.has(condition.reason),
  )
  const order = PRECEDENCE[type]
  const first =
    refused ??
    order
      .map((status) => all.filter(({ condition }) => condition.status === status))
      .map((same) => same.toSorted((a, b) => rankOf(a) - rankOf(b))[0])
      .find((found) => found !== undefined)
  if (first === undefined || all.length === 1) return first?.condition
  const sameStatus = all.filter(
    ({ condition }) => condition.status === first.condition.status,
  ).length
  const failed = all.filter(({ condition }) => condition.status === 'False')
  const others = type === 'Ready' || first.condition.status === 'False' ? '' : failedText(failed)
  const { node, condition } = first
  return {
    ...condition,
    message: `${sameStatus} of ${all.length} nodes; ${node}: ${condition.message}${others}`,
  }
}

/** The most names of failed nodes in a message. */
const NAMED_NODES = 3

/** Nodes that the status hides: a handler may be missing on them, or fail there. */
function failedText(failed: readonly { node: string; condition: NodeCondition }[]): string {
  const [first] = failed
  if (first === undefined) return ''
  const names = failed.slice(0, NAMED_NODES).map(({ node }) => node)
  const more = failed.length - names.length
  const others = more > 0 ? ` and ${more} more` : ''
  return `; not on ${names.join(', ')}${others}: ${first.condition.message}`
}

/** The problem of a device, for the condition of its Instance. */
export interface InstanceProblem {
  readonly reason: FoundProblem | 'ReportedByHandler'
  readonly message: string
}

/**
 * The conditions of an Instance whose device has a problem, or has none. Those of other programs
 * stay.
 * @param before - the conditions until now: a condition with the same status keeps its time
 * @param problem - the problem of the device; undefined if it has none
 * @param now - the time, as ISO 8601
 */
export function instanceConditions(
  before: readonly InstanceCondition[],
  problem: InstanceProblem | undefined,
  now: string,
): readonly InstanceCondition[] {
  const previous = deviceProblemIn(before)
  if (problem === undefined && (previous?.status ?? 'False') === 'False') return before
  const status = problem === undefined ? 'False' : 'True'
  const condition: InstanceCondition = {
    type: DEVICE_PROBLEM,
    status,
    reason: problem?.reason ?? 'ProblemOver',
    message: problem?.message ?? 'the device has no problem any more',
    lastTransitionTime: previous?.status === status ? previous.lastTransitionTime : now,
  }
  return previous === undefined
    ? [...before, condition]
    : before.map((each) => (each === previous ? condition : each))
}

const DEVICE_PROBLEM = 'DeviceProblem'

/** The condition `DeviceProblem` among those of an Instance. */
export function deviceProblemIn(
  conditions: readonly InstanceCondition[] = [],
): InstanceCondition | undefined {
  return conditions.find(({ type }) => type === DEVICE_PROBLEM)
}
