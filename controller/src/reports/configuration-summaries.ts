import type { Configuration, ConfigurationStatus, Instance, InstanceCondition } from '@akrijs/api'
import { mergePatchOf, type ObjectKey, type RecheckAfter } from '@akrijs/kube'
import { type BrokerCensus, brokerCensus } from '../brokers/broker-census.js'
import type { BrokerProblem } from '../brokers/broker-problem.js'
import { slowAt } from '../brokers/broker-state.js'
import { RefusedJobs } from '../brokers/refused-jobs.js'
import type { StoredConfiguration } from '../cluster-state.js'
import type { Pod } from '../kubernetes-objects.js'
import { graceLeftMs, silentMs, unreportedMs } from '../nodes/node-presence.js'
import type { Term } from '../term.js'
import { EVENT_REASONS } from './conditions.js'
import {
  absenceText,
  isReadySilent,
  isSilentEntry,
  type ReportedNode,
  summaryOf,
} from './summary.js'

/** The least time between two writes of one Configuration, in milliseconds: all agents watch it. */
const WRITE_MS = 2000
/** The least time between two computations that change nothing, in milliseconds. */
const COMPUTE_MS = 100
/**
 * For how long the last report of an agent that is not there decides, in milliseconds, or for the
 * grace period if that is shorter. A roll-out makes one agent after the other silent for seconds.
 */
const AWAY_MS = 60_000
/** How long the first start of an agent may take on a node, in milliseconds: it pulls its image. */
const START_MS = 5 * 60_000
/** The same of an agent whose image could not be pulled: the kubelet tries again. */
const PULL_FAILED_MS = 30_000
/** Computations take at most one of so many parts of the time: each looks at all brokers. */
const COMPUTE_PARTS = 10

/** Writes the summary of each Configuration from the reports of nodes. */
export class ConfigurationSummaries {
  readonly #term: Term
  readonly #refusedJobs: RefusedJobs
  /** When the next summary of a Configuration may be computed, by `monotonicMs`. */
  readonly #dueAt = new Map<ObjectKey, number>()

  constructor(term: Term) {
    this.#term = term
    this.#refusedJobs = new RefusedJobs(term)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal, recheckAfter: RecheckAfter): Promise<void> {
    const { state, clock } = this.#term
    const stored = state.configurations.cache.get(key)
    if (stored === undefined) {
      this.#dueAt.delete(key)
      await this.#refusedJobs.check(key, undefined, signal, recheckAfter)
      return
    }
    // Before that, the absence of a report means nothing.
    if (!state.hasReports) return
    const startedAt = clock.monotonicMs()
    const waitMs = (this.#dueAt.get(key) ?? 0) - startedAt
    if (waitMs > 0) return recheckAfter(waitMs)
    const instances = state.ownInstancesOf(key, stored)
    const { valid } = stored
    const census = valid && brokerCensus(valid, instances, this.#term)
    const computeMs = Math.max(COMPUTE_MS, COMPUTE_PARTS * (clock.monotonicMs() - startedAt))
    recheckAfter(census?.rollout?.recheckInMs)
    const { idleJobs = [] } = census ?? {}
    const problem = await this.#refusedJobs.check(key, idleJobs[0], signal, recheckAfter)
    const reported = reportsOf(key, stored, instances, this.#term, recheckAfter)
    const silent = unreportedOf(stored, this.#term, recheckAfter)
    // When the next broker has been starting for too long.
    for (const pod of census ? state.pods.labelled('Configuration', key) : []) {
      const slowInMs = (slowAt(pod) ?? 0) - clock.monotonicMs()
      if (slowInMs > 0) recheckAfter(slowInMs)
    }
    const summary = summaryOf({
      configuration: stored,
      instances,
      reports: [...reported, ...silent],
      brokers: census && withProblem(census, problem),
      hasReferences: valid !== undefined && hasReferences(valid),
      now: new Date(clock.wallMs()).toISOString(),
    })
    if (reported.length > 0) this.#dueAt.set(key, clock.monotonicMs() + computeMs)
    const changes = summary && changesOf(stored, summary)
    if (changes === undefined) return
    const { resourceVersion } = stored.metadata
    const patch = { metadata: { resourceVersion }, status: changes }
    const written = await this.#term.configurationStatus.write(stored, patch, signal)
    // The watch event of the other write starts the next reconcile.
    if (written === undefined) return
    recordEvents(key, stored, summary?.conditions ?? [], this.#term)
    this.#dueAt.set(key, clock.monotonicMs() + WRITE_MS)
  }
}

/** @param problem why Jobs have no Pods */
function withProblem(census: BrokerCensus, problem: BrokerProblem | undefined): BrokerCensus {
  const { problems, idleJobs = [] } = census
  return { ...census, problems: [...problems, ...idleJobs.flatMap(() => problem ?? [])] }
}

function hasReferences({ spec }: Configuration): boolean {
  const { discoveryProperties = [] } = spec.discoveryHandler
  return discoveryProperties.some((property) => 'valueFrom' in property)
}

/** The merge patch that makes a status that of a summary; undefined for an equal status. */
function changesOf(
  { status, unreadableNodes, otherConditions }: StoredConfiguration,
  summary: ConfigurationStatus,
): object | undefined {
  // An entry that makes no sense counts nowhere, and goes.
  const unreadable = Object.fromEntries(unreadableNodes.map((name) => [name, null]))
  const before = status && { ...status, nodes: { ...status.nodes, ...unreadable } }
  return mergePatchOf(
    before === undefined ? {} : withConditions(before, otherConditions),
    withConditions(summary, otherConditions),
  )
}

/** A list is written as a whole: the conditions of other programs come after those of a summary. */
function withConditions(
  status: Pick<ConfigurationStatus, 'conditions'>,
  others: readonly InstanceCondition[],
): Readonly<Record<string, unknown>> {
  return { ...status, conditions: [...status.conditions, ...others] }
}

/**
 * Records an Event for each change of `Ready` or of its reason, and when the API server begins to
 * refuse brokers, or a roll-out is stuck.
 */
function recordEvents(
  key: ObjectKey,
  { metadata, status: before }: StoredConfiguration,
  conditions: ConfigurationStatus['conditions'],
  { events }: Term,
): void {
  const regarding = { kind: 'Configuration', key }
  for (const { type, status, reason, message } of conditions) {
    const last = before?.conditions.find((condition) => condition.type === type)
    const isReady = type === 'Ready'
    const isOld = last?.reason === reason && (!isReady || last.status === status)
    const isTold = isReady || (type === 'BrokersReady' && EVENT_REASONS.has(reason))
    if (isOld || !isTold) continue
    events.record(
      {
        regarding,
        type: status === 'True' ? 'Normal' : 'Warning',
        reason,
        message: isReady ? `Ready is ${status}: ${message}` : message,
      },
      metadata.uid,
    )
  }
}

/** The reports that count. */
function reportsOf(
  key: ObjectKey,
  { metadata, status: before }: StoredConfiguration,
  instances: readonly Instance[],
  term: Term,
  recheckAfter: RecheckAfter,
): ReportedNode[] {
  const { state, nodeGraceMs } = term
  // A controller that has just started does not know for how long agents are not there.
  const awayMs = isReadySilent(before) ? 0 : Math.min(AWAY_MS, nodeGraceMs)
  const reported: ReportedNode[] = []
  for (const { report, presence } of state.reportIndex.of(key)) {
    const entry = report.configurations[key]
    if (presence === 'deleted' || entry?.uid !== metadata.uid) continue
    const { uid: _uid, deviceProblems: _problems, ...status } = entry
    const { name: node } = report.metadata
    if (presence === 'left') {
      const leftMs = graceLeftMs(node, term)
      // The report stays for the claims of Pods. An earlier leader may have removed the node.
      const isOut = status.devices > 0 && !instances.some(({ spec }) => spec.nodes.includes(node))
      if (isOut || leftMs === 0) continue
      recheckAfter(leftMs)
    }
    const silentForMs = silentMs(node, term)
    const agent = agentState(silentForMs, awayMs)
    if (agent === 'away') recheckAfter(awayMs - (silentForMs ?? 0))
    const agents = presence === 'present' ? [] : state.reportIndex.agentsOn(node)
    const problem = presence === 'exchanged' ? problemOf(agents) : {}
    const absence = absenceText(presence, { isNodeReady: state.isReady(node), agents })
    reported.push({ node, status, agent, absence, ...problem })
  }
  return reported
}

function agentState(silentForMs: number | undefined, awayMs: number): ReportedNode['agent'] {
  if (silentForMs === undefined) return 'present'
  return silentForMs < awayMs ? 'away' : 'silent'
}

/** The nodes whose agents have never reported, and are not ready for longer than a start takes. */
function unreportedOf(
  { metadata, status: before }: StoredConfiguration,
  term: Term,
  recheckAfter: RecheckAfter,
): ReportedNode[] {
  const silent: ReportedNode[] = []
  for (const [node, pod] of term.state.reportIndex.unreported()) {
    const isPullFailed = pod.problem?.reason === 'ImagePullFailed'
    const startMs = isPullFailed ? PULL_FAILED_MS : START_MS
    const waitMs = startMs - (unreportedMs(node, term) ?? 0)
    const entry = before?.nodes[node]
    // A controller that has just started does not know for how long.
    const wasSilent = entry !== undefined && isSilentEntry(entry)
    if (waitMs > 0 && !wasSilent) {
      recheckAfter(waitMs)
      continue
    }
    const status = { observedGeneration: metadata.generation, devices: 0, conditions: [] }
    const unreported =
      pod.problem?.message ?? absenceText('silent', { isNodeReady: true, agents: [pod] })
    silent.push({ node, status, agent: 'silent', unreported, ...problemOf([pod]) })
  }
  return silent
}

/** Why the agent that should have taken the place of another does not run. */
function problemOf(agents: readonly Pod[]): Pick<ReportedNode, 'problem'> {
  const [problem] = agents.flatMap((agent) => (agent.ready ? [] : (agent.problem ?? [])))
  return problem === undefined ? {} : { problem }
}
