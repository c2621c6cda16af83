import {
  type Condition,
  type Configuration,
  type ConfigurationStatus,
  conditionsOf,
  type Instance,
  type NodeConditionType,
  type NodeStatus,
  slotCounts,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import type { BrokerCensus } from '../brokers/broker-census.js'
import { brokersCondition } from './brokers-condition.js'
import { handlersCondition } from './handlers-condition.js'
import { propertiesCondition } from './properties-condition.js'

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
  /** The problem of the Pod of the next agent. */
  readonly problem?: string
  /** Why a silent agent has never reported: which devices its node has is not known. */
  readonly unreported?: string
}

interface SummaryInput {
  readonly configuration: Pick<Configuration, 'metadata' | 'status'>
  /** The Instances of the Configuration on all nodes. */
  readonly instances: readonly Instance[]
  readonly reports: readonly ReportedNode[]
  /** Entries of `status.nodes` that agents of the version before have written. */
  readonly legacy: Readonly<Record<string, NodeStatus>>
  /** Undefined for a Configuration without brokers. */
  readonly brokers: Omit<BrokerCensus, 'idleJobs'> | undefined
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
/** The conditions that no node can decide if all agents are silent. */
const ALL_TYPES = ['HandlerConnected', 'Discovering', 'Ready'] as const

/** @returns undefined if no node has reported, and there is no status that says otherwise */
export function summaryOf({
  configuration,
  instances,
  reports,
  legacy,
  brokers,
  hasReferences,
  now,
}: SummaryInput): ConfigurationStatus | undefined {
  const { metadata, status } = configuration
  if (status === undefined && reports.length === 0) return undefined
  const present = reports.filter(({ agent }) => agent === 'present')
  const all = [...present.map((report) => report.status), ...Object.values(legacy)]
  const before = status?.conditions ?? []
  const beforeOf = (wanted: Condition['type']) => before.find(({ type }) => type === wanted)
  // Agents of the version before cannot read a status with further conditions, and would write
  // theirs without end.
  const canExtend = Object.keys(legacy).length === 0
  const heard = reports.filter(({ agent }) => agent !== 'silent')
  const further = [
    handlersCondition(heard, beforeOf('HandlersReady'), now),
    hasReferences && reports.length > 0
      ? propertiesCondition(heard, beforeOf('PropertiesResolved'), now)
      : undefined,
    brokers && brokersCondition(brokers, beforeOf('BrokersReady'), now),
  ]
  return {
    observedGeneration: Math.min(
      metadata.generation,
      ...all.map(({ observedGeneration }) => observedGeneration),
    ),
    conditions: [
      ...clusterConditions(reports, legacy, before, now),
      ...(canExtend ? further.flatMap((condition) => condition ?? []) : []),
    ],
    devices: instances.length,
    slots: slotCounts(instances),
    ...(brokers === undefined
      ? {}
      : { brokers: { desired: brokers.desired, updated: brokers.updated, ready: brokers.ready } }),
    nodeCounts: {
      reporting: all.length,
      ready: all.filter(isReady).length,
      silent: reports.length - present.length,
    },
    nodes: { ...problems(reports), ...legacy },
  }
}

/** Whether an entry of `status.nodes` stands for a silent agent: only the controller writes it. */
export function isSilentEntry({ conditions }: NodeStatus): boolean {
  return conditions.some(({ reason }) => reason === SILENT_REASON)
}

/** Whether silent nodes decide the condition `Ready`. */
export function isReadySilent(status: Pick<ConfigurationStatus, 'conditions'> | undefined) {
  const ready = status?.conditions.find(({ type }) => type === 'Ready')
  return ready?.reason === SILENT_REASON
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
  legacy: Readonly<Record<string, NodeStatus>>,
  before: readonly Condition[],
  now: string,
): readonly Condition[] {
  const heard = reports.filter(({ agent }) => agent !== 'silent')
  const silent = reports.filter(({ agent }) => agent === 'silent')
  const isAllSilent = heard.length === 0 && Object.keys(legacy).length === 0
  const counted = isAllSilent ? silent : silent.filter(mayHaveDevices)
  const statuses: Record<string, NodeStatus> = {
    ...Object.fromEntries(heard.map(({ node, status }) => [node, status])),
    ...Object.fromEntries(
      counted.map((report) => [report.node, silenced(report, isAllSilent ? ALL_TYPES : ['Ready'])]),
    ),
    ...legacy,
  }
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
  ({ status, agent }) => agent === 'present' && has(status, 'False', 'Ready'),
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

function isReady(status: NodeStatus): boolean {
  return has(status, 'True', 'Ready')
}

function silenced(
  { status: { observedGeneration, devices }, problem, unreported }: ReportedNode,
  types: readonly NodeConditionType[],
): NodeStatus {
  const reason = problem === undefined ? '' : `: ${problem}`
  const message =
    unreported === undefined
      ? `the Pod of the agent or the Node is not ready; ${devices} devices before${reason}`
      : `the agent has never reported: ${unreported}`
  const conditions = types.map(
    (type) => ({ type, status: 'Unknown', reason: SILENT_REASON, message }) as const,
  )
  return { observedGeneration, devices, conditions }
}
