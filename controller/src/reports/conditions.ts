import { type Condition, NO_HANDLER, type NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { objectMessage } from '@akrijs/runtime'
import type { BrokerCensus } from '../brokers/broker-census.js'
import { type BrokerProblem, PROBLEM_REASONS, ROLLING_OUT } from '../brokers/broker-problem.js'

// The conditions of a Configuration that the controller finds out. Pure.

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
function worstNode(
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

/** Reasons for which a handler of a node is not ready. The first that a node has is shown. */
const HANDLER_FAILURES = ['InternalError', 'HandlerLost', 'HandlerFailed', 'Unreachable']

/**
 * The condition `HandlersReady`: whether the handler works on each node that has it. Agents report
 * it as `HandlerConnected`, which is true as long as it works on any node. A node without the
 * handler does not count, except for one whose devices the handler has left: nothing else tells on
 * which nodes a handler should be.
 * @param nodes without those whose agents are silent
 * @returns undefined if no node tells of a handler, as for a Configuration whose name is taken
 */
export function handlersReady(nodes: readonly StatusOfNode[]): Finding | undefined {
  const connections = nodes.flatMap(({ status }) => connectionOf(status) ?? [])
  if (connections.length === 0) return undefined
  const failing = worstNode(nodes, HANDLER_FAILURES, failureOf)
  return failing === undefined ? connectedOn(connections) : { status: 'False', ...failing }
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

/**
 * Reasons of `Discovering` for which a handler has not been asked. The first that a node has is
 * shown.
 */
const PROPERTY_FAILURES = [
  'PropertyForbidden',
  'PropertyRefused',
  'MissingProperty',
  'UnreadableProperty',
]
/** Reasons of `Discovering` of a handler that has been asked, and so has the properties. */
const ASKED: ReadonlySet<string> = new Set(['InvalidDetails', 'Unreachable', 'HandlerFailed'])

/**
 * The condition `PropertiesResolved` of a Configuration that takes properties from Secrets or
 * ConfigMaps. Agents report it as `Discovering`, which is true as long as any node can discover.
 */
export function propertiesResolved(nodes: readonly StatusOfNode[]): Finding {
  const failing = worstNode(nodes, PROPERTY_FAILURES, ({ conditions }) =>
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

const STUCK = 'RolloutStuck'

/**
 * Reasons of `BrokersReady` that an Event tells of too: of problems that no status of a Pod shows,
 * and of a roll-out that waits.
 */
export const EVENT_REASONS: ReadonlySet<string> = new Set<BrokerProblem['reason'] | typeof STUCK>([
  'BrokerRefused',
  'QuotaExceeded',
  'NoUsableNode',
  STUCK,
])

/** The condition `BrokersReady`. */
export function brokersReady(census: BrokerCensus): Finding {
  const { what, desired, updated, ready, problems, rollout } = census
  const problem = worst(problems)
  const isReady = ready >= desired && problem === undefined && rollout === undefined
  const status = isReady ? 'True' : 'False'
  const failing = problem === undefined ? '' : `, ${problems.length} failed: ${problem.message}`
  const progress = rollout === undefined ? '' : `, ${updated} of ${desired} are updated`
  const waiting =
    rollout?.isStuck && problem === undefined && rollout.waitsFor !== undefined
      ? `: Pod ${rollout.waitsFor} is not ready`
      : ''
  const pending = rollout !== undefined ? ROLLING_OUT : isReady ? 'Ready' : 'Starting'
  const reason = rollout?.isStuck ? STUCK : (problem?.reason ?? pending)
  const text = `${ready} of ${desired} ${what} are ready${progress}${waiting}${failing}`
  return { status, reason, message: objectMessage(text) }
}

/** The same of the same problems, in whatever order they come: each change is a write. */
function worst(problems: readonly BrokerProblem[]): BrokerProblem | undefined {
  const rankOf = ({ reason }: BrokerProblem) => PROBLEM_REASONS.indexOf(reason)
  const [first] = problems.toSorted(
    (a, b) => rankOf(a) - rankOf(b) || (a.message < b.message ? -1 : 1),
  )
  return first
}
