import {
  type Condition,
  type Configuration,
  type ConfigurationStatus,
  conditionsOf,
  type Instance,
  NO_HANDLER,
  type NodeConditionType,
  type NodeStatus,
  slotCounts,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { objectMessage } from '@akrijs/runtime'
import type { BrokerCensus } from '../brokers/broker-census.js'
import type { BrokerProblem } from '../brokers/broker-problem.js'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { brokersReady, type Finding, handlersReady, propertiesResolved } from './conditions.js'
import type { AgentPresence } from './report-index.js'

// The summary of a Configuration in its status. A pure function of the reports.

/** The status of the Configuration in the report of a node. */
export interface ReportedNode {
  readonly node: NodeName
  readonly status: NodeStatus
  /**
   * Whether the agent that wrote the report is there. `away`: it is not there for a short time, as
   * during a roll-out, and its last report still decides. `silent`: it is not there for longer.
   */
  readonly agent: 'present' | 'away' | 'silent'
  /** The problem of the Pod of the next agent, or of an agent that has never reported. */
  readonly problem?: BrokerProblem
  /** Why a silent agent is not there, with the next step. */
  readonly absence?: string
  /** Why a silent agent has never reported: which devices its node has is not known. */
  readonly unreported?: string
}

interface SummaryInput {
  readonly configuration: Pick<Configuration, 'metadata' | 'status'>
  /** The Instances of the Configuration on all nodes. */
  readonly instances: readonly Instance[]
  readonly reports: readonly ReportedNode[]
  /** Undefined for a Configuration without brokers. */
  readonly brokers: BrokerCensus | undefined
  /** Whether a property of the Configuration comes from a Secret or a ConfigMap. */
  readonly hasReferences: boolean
  /** ISO 8601. */
  readonly now: string
}

/** The most nodes with a problem that the summary shows: each watcher gets each change. */
export const SHOWN_NODES = 5
/** The most names of silent nodes in a message. */
const NAMED_NODES = 3

const SILENT_REASON = 'AgentSilent'
/** Also the reason of `Ready` for brokers: nothing that a node does gets past a wrong image. */
const PULL_FAILED = 'ImagePullFailed' satisfies BrokerProblem['reason']
const SILENT_REASONS: ReadonlySet<string> = new Set([SILENT_REASON, PULL_FAILED])
/** The conditions that no node can decide if all agents are silent. */
const ALL_TYPES = ['HandlerConnected', 'Discovering', 'Ready'] as const

/** @returns undefined if no node has reported, and there is no status that says otherwise */
export function summaryOf(input: SummaryInput): ConfigurationStatus | undefined {
  const { configuration, instances, reports, brokers, hasReferences, now } = input
  const { metadata, status } = configuration
  if (status === undefined && reports.length === 0) return undefined
  const present = reports.filter(({ agent }) => agent === 'present')
  const before = status?.conditions ?? []
  // With the same status a condition keeps its time.
  const conditionOf = (type: Condition['type'], finding: Finding | undefined) => {
    if (finding === undefined) return []
    const last = before.find((condition) => condition.type === type)
    const lastTransitionTime = last?.status === finding.status ? last.lastTransitionTime : now
    return { type, ...finding, lastTransitionTime }
  }
  const heard = reports.filter(({ agent }) => agent !== 'silent')
  const nodes = clusterConditions(reports, before, now)
  const ready = nodes.find(({ type }) => type === 'Ready')
  const finding = notReady(input, ready)
  const hasProperties = hasReferences && reports.length > 0
  const conditions = [
    nodes.filter((condition) => condition !== ready),
    // In any case: a tool that knows no other condition takes an object without it for ready.
    finding === undefined ? (ready ?? []) : conditionOf('Ready', finding),
    conditionOf('HandlersReady', handlersReady(heard)),
    conditionOf('PropertiesResolved', hasProperties ? propertiesResolved(heard) : undefined),
    conditionOf('BrokersReady', brokers && brokersReady(brokers)),
  ].flat()
  return {
    observedGeneration: Math.min(
      metadata.generation,
      ...heard.map((report) => report.status.observedGeneration),
    ),
    conditions,
    devices: instances.length,
    slots: slotCounts(instances),
    ...(brokers === undefined
      ? {}
      : { brokers: { desired: brokers.desired, updated: brokers.updated, ready: brokers.ready } }),
    nodeCounts: {
      reporting: present.length,
      ready: present.filter(({ status: reported }) => has(reported, 'True', 'Ready')).length,
      silent: reports.length - present.length,
    },
    nodes: problems(reports),
  }
}

/** Whether an entry of `status.nodes` stands for a silent agent: only the controller writes it. */
export function isSilentEntry({ conditions }: NodeStatus): boolean {
  return conditions.some(({ reason }) => SILENT_REASONS.has(reason))
}

/** Whether silent nodes decide the condition `Ready`. */
export function isReadySilent(status: Pick<ConfigurationStatus, 'conditions'> | undefined) {
  const ready = status?.conditions.find(({ type }) => type === 'Ready')
  return ready?.status === 'Unknown' && SILENT_REASONS.has(ready.reason)
}

/** What makes a Configuration not ready, whatever its nodes say, or if they say `True`. */
function notReady(
  { configuration: { metadata }, reports, brokers }: SummaryInput,
  ready: Condition | undefined,
): Finding | undefined {
  if (isDeleted({ metadata })) {
    const finalizers = metadata.finalizers?.join(', ') ?? ''
    const message = `the Configuration is being deleted; finalizers hold it: ${finalizers}`
    return { status: 'False', reason: 'BeingDeleted', message: objectMessage(message) }
  }
  if (reports.length === 0)
    return {
      status: 'Unknown',
      reason: 'NoAgent',
      message: 'no agent reports the Configuration: check the Pods of the agents',
    }
  if (ready === undefined)
    return { status: 'Unknown', reason: 'Waiting', message: 'no node has reported it yet' }
  // The same in whatever order they come: each change is a write.
  const [message] = (brokers?.problems ?? [])
    .flatMap((problem) => (problem.reason === PULL_FAILED ? problem.message : []))
    .sort()
  return ready.status === 'True' && message !== undefined
    ? { status: 'False', reason: PULL_FAILED, message }
    : undefined
}

/** Whether a silent node may have devices. */
function mayHaveDevices({ status, unreported }: ReportedNode): boolean {
  return status.devices > 0 || unreported !== undefined
}

/**
 * A silent node with devices makes `Ready` unknown: its devices may be gone, and nothing offers
 * others. So does a node whose agent has never reported. About a handler the other nodes alone
 * decide, if there are any.
 */
function clusterConditions(
  reports: readonly ReportedNode[],
  before: readonly Condition[],
  now: string,
): readonly Condition[] {
  const heard = reports.filter(({ agent }) => agent !== 'silent')
  const silent = reports.filter(({ agent }) => agent === 'silent')
  const isAllSilent = heard.length === 0
  const counted = isAllSilent ? silent : silent.filter(mayHaveDevices)
  const types = isAllSilent ? ALL_TYPES : (['Ready'] as const)
  const statuses = Object.fromEntries([
    ...heard.map(({ node, status }) => [node, status]),
    ...counted.map((report) => [report.node, silenced(report, types)]),
  ])
  const conditions = conditionsOf(statuses, before, now)
  const absent = reports.filter(({ agent }) => agent !== 'present')
  if (absent.length === 0) return conditions
  return conditions.map((condition) =>
    condition.type === 'Ready'
      ? { ...condition, message: `${condition.message}; ${silentText(absent)}` }
      : condition,
  )
}

function silentText(absent: readonly ReportedNode[]): string {
  const names = absent.map(({ node }) => node).sort()
  const more = names.length - NAMED_NODES
  const text = names.slice(0, NAMED_NODES).join(', ')
  const others = more > 0 ? ` and ${more} more` : ''
  const count = names.length === 1 ? '1 node is' : `${names.length} nodes are`
  return `${count} silent: ${text}${others}`
}

function problems(reports: readonly ReportedNode[]): Record<string, NodeStatus> {
  const ranked = reports
    .map((report) => ({ report, rank: rankOf(report) }))
    .filter(({ rank }) => rank < PROBLEMS.length)
    .sort((a, b) => a.rank - b.rank || (a.report.node < b.report.node ? -1 : 1))
  const shown = ranked.slice(0, SHOWN_NODES).map(({ report }) => report)
  return Object.fromEntries(
    shown.map((report) => [
      report.node,
      report.agent === 'present' ? report.status : silenced(report, ['Ready']),
    ]),
  )
}

/** The worst problem first. */
const PROBLEMS: readonly ((report: ReportedNode) => boolean)[] = [
  ({ status, agent }) => agent === 'present' && isBroken(status),
  ({ status, agent }) => agent === 'present' && has(status, 'False', 'Discovering'),
  ({ status, agent }) => agent === 'present' && has(status, 'False', 'HandlerConnected'),
  ({ status, agent }) => agent === 'present' && has(status, 'Unknown'),
  ({ agent }) => agent !== 'present',
]

/** The length of `PROBLEMS` for a node without a problem. */
function rankOf(report: ReportedNode): number {
  const rank = PROBLEMS.findIndex((isSo) => isSo(report))
  return rank < 0 ? PROBLEMS.length : rank
}

function has(
  { conditions }: NodeStatus,
  status: Condition['status'],
  type?: Condition['type'],
): boolean {
  return conditions.some(
    (condition) => condition.status === status && (type === undefined || condition.type === type),
  )
}

/** A node that does not have the handler may be right. */
function isBroken({ conditions }: NodeStatus): boolean {
  return conditions.some(
    ({ type, status, reason }) => type === 'Ready' && status === 'False' && reason !== NO_HANDLER,
  )
}

/** Why the agent of a node is not there, and what to look at. */
export function absenceText(
  presence: AgentPresence,
  {
    isNodeReady,
    agents,
  }: { readonly isNodeReady: boolean; readonly agents: readonly Pick<Pod, 'metadata'>[] },
): string {
  const [pod] = agents
  const { namespace, name } = pod?.metadata ?? {}
  if (!isNodeReady) return 'the Node is not ready: kubectl describe node has the reason'
  if (presence === 'left')
    return (
      'no agent is on the node: its Pod was deleted, or the DaemonSet does not select the node; ' +
      "compare the node's labels and taints with it"
    )
  return name === undefined
    ? 'the Pod of the agent is gone, and there is no other yet'
    : `Pod ${name} of the agent is not ready: kubectl -n ${namespace} describe pod ${name}`
}

function silenced(
  { status: { observedGeneration, devices }, problem, absence, unreported }: ReportedNode,
  types: readonly NodeConditionType[],
): NodeStatus {
  const why = problem === undefined ? '' : `: ${problem.message}`
  const message =
    unreported === undefined
      ? `${absence ?? 'the agent is not there'}; ${devices} devices before${why}`
      : `the agent has never reported: ${unreported}`
  const reason = problem?.reason === PULL_FAILED ? PULL_FAILED : SILENT_REASON
  const conditions = types.map((type) => ({ type, status: 'Unknown', reason, message }) as const)
  return { observedGeneration, devices, conditions }
}
