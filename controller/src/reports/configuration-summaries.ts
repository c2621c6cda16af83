import type { Configuration, ConfigurationStatus, Instance, InstanceCondition } from '@akrijs/api'
import {
  type EventRecorder,
  mergePatchOf,
  type ObjectKey,
  type ReconcileResult,
} from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { type BrokerCensus, brokerCensus } from '../brokers/broker-census.js'
import type { BrokerFailures } from '../brokers/broker-failures.js'
import { slowAt } from '../brokers/pod-state.js'
import type { RefusedJobs } from '../brokers/refused-jobs.js'
import type { Rollouts } from '../brokers/rollouts.js'
import type { ClusterState } from '../cluster-state.js'
import type { FirstSights } from '../first-sights.js'
import type { Pod } from '../kubernetes-objects.js'
import { graceLeftMs, silentMs, unreportedMs } from '../nodes/agent-absence.js'
import { earliest } from '../requeue.js'
import type { StatusWriter } from '../status-writer.js'
import { EVENT_REASONS } from './brokers-condition.js'
import {
  absenceText,
  isReadySilent,
  isSilentEntry,
  type ReportedNode,
  summaryOf,
} from './summary.js'

interface ConfigurationSummariesOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly events: Pick<EventRecorder, 'record'>
  readonly failures: Pick<BrokerFailures, 'of'>
  readonly refusedJobs: Pick<RefusedJobs, 'check'>
  readonly sights: FirstSights
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly nodeGraceMs: number
  readonly rollouts: Pick<Rollouts, 'of'>
  readonly status: Pick<StatusWriter<Pick<Configuration, 'metadata' | 'status'>>, 'write'>
}

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
  readonly #options: ConfigurationSummariesOptions
  /** When the next summary of a Configuration may be computed, by `monotonicMs`. */
  readonly #dueAt = new Map<ObjectKey, number>()

  constructor(options: ConfigurationSummariesOptions) {
    this.#options = options
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#options
    const configuration = state.statuses.cache.get(key)
    if (configuration === undefined) {
      this.#dueAt.delete(key)
      await this.#options.refusedJobs.check(key, undefined, signal)
      return {}
    }
    // Before that, the absence of a report means nothing.
    if (!state.hasReports) return {}
    const startedAt = clock.monotonicMs()
    const waitMs = (this.#dueAt.get(key) ?? 0) - startedAt
    if (waitMs > 0) return { requeueAfterMs: waitMs }
    const instances = state.ownInstancesOf(key, configuration)
    const census = this.#censusOf(key, configuration, instances)
    const computeMs = Math.max(COMPUTE_MS, COMPUTE_PARTS * (clock.monotonicMs() - startedAt))
    const { brokers, recheckInMs } = await this.#withIdleJobs(key, census, signal)
    const { reported, changeInMs } = this.#reportsOf(key, configuration, instances)
    const unreported = this.#unreportedOf(configuration)
    const slowInMs = census && this.#slowInMs(key)
    const recheckMs = earliest(recheckInMs, changeInMs, unreported.silentInMs, slowInMs)
    const recheck = recheckMs === undefined ? {} : { requeueAfterMs: recheckMs }
    const summary = summaryOf({
      configuration,
      instances,
      reports: [...reported, ...unreported.silent],
      brokers,
      hasReferences: this.#hasReferences(key, configuration),
      now: new Date(clock.wallMs()).toISOString(),
    })
    if (reported.length > 0) this.#dueAt.set(key, clock.monotonicMs() + computeMs)
    // An entry that makes no sense counts nowhere, and goes.
    const unreadable = configuration.unreadableNodes.map((name) => [name, null] as const)
    const nodes = { ...configuration.status?.nodes, ...Object.fromEntries(unreadable) }
    const before = configuration.status && { ...configuration.status, nodes }
    const { otherConditions } = configuration
    const changes =
      summary &&
      mergePatchOf(
        before === undefined ? {} : withConditions(before, otherConditions),
        withConditions(summary, otherConditions),
      )
    if (changes === undefined) return recheck
    const { resourceVersion } = configuration.metadata
    const patch = { metadata: { resourceVersion }, status: changes }
    const stored = await this.#options.status.write(configuration, patch, signal)
    // The watch event of the other write starts the next reconcile.
    if (stored === undefined) return recheck
    this.#tellReady(key, configuration, summary?.conditions ?? [])
    this.#tellRefusal(key, configuration, summary?.conditions ?? [])
    this.#dueAt.set(key, clock.monotonicMs() + WRITE_MS)
    return recheck
  }

  #censusOf(
    key: ObjectKey,
    found: Pick<Configuration, 'metadata'>,
    instances: readonly Instance[],
  ): BrokerCensus | undefined {
    const configuration = this.#validOf(key, found)
    return configuration && brokerCensus(configuration, instances, this.#options)
  }

  /** In how many milliseconds the next broker has been starting for too long. */
  #slowInMs(key: ObjectKey): number | undefined {
    const { state, clock } = this.#options
    const now = clock.monotonicMs()
    const times = state.pods.labelled('Configuration', key).map(slowAt)
    const at = earliest(...times.filter((time = 0) => time > now))
    return at && at - now
  }

  #hasReferences(key: ObjectKey, found: Pick<Configuration, 'metadata'>): boolean {
    const { discoveryProperties = [] } = this.#validOf(key, found)?.spec.discoveryHandler ?? {}
    return discoveryProperties.some((property) => 'valueFrom' in property)
  }

  /** Of a Configuration whose spec is invalid, the other cache has the last valid version. */
  #validOf(
    key: ObjectKey,
    { metadata }: Pick<Configuration, 'metadata'>,
  ): Configuration | undefined {
    const configuration = this.#options.state.configurations.cache.get(key)
    return configuration?.metadata.uid === metadata.uid ? configuration : undefined
  }

  /** Adds why Jobs have no Pods. */
  async #withIdleJobs(
    key: ObjectKey,
    census: BrokerCensus | undefined,
    signal: AbortSignal,
  ): Promise<{
    readonly brokers: BrokerCensus | undefined
    readonly recheckInMs?: number
  }> {
    const idle = census?.idleJobs ?? []
    const answer = await this.#options.refusedJobs.check(key, idle[0], signal)
    if (census === undefined || answer === undefined) return { brokers: census }
    const { problem, recheckInMs } = answer
    const problems = [...census.problems, ...idle.flatMap(() => problem ?? [])]
    return { brokers: { ...census, problems }, recheckInMs }
  }

  /** Records an Event for each change of `Ready`, or of its reason. */
  #tellReady(
    key: ObjectKey,
    { metadata, status }: Pick<Configuration, 'metadata' | 'status'>,
    conditions: ConfigurationStatus['conditions'],
  ): void {
    const readyIn = (all: ConfigurationStatus['conditions'] = []) =>
      all.find(({ type }) => type === 'Ready')
    const [before, now] = [readyIn(status?.conditions), readyIn(conditions)]
    if (now === undefined) return
    if (before?.status === now.status && before.reason === now.reason) return
    const { reason, message } = now
    const type = now.status === 'True' ? 'Normal' : 'Warning'
    const regarding = { kind: 'Configuration', key }
    this.#options.events.record(
      { regarding, type, reason, message: `Ready is ${now.status}: ${message}` },
      metadata.uid,
    )
  }

  /** Records an Event when the API server begins to refuse brokers, or a roll-out is stuck. */
  #tellRefusal(
    key: ObjectKey,
    { metadata, status }: Pick<Configuration, 'metadata' | 'status'>,
    conditions: ConfigurationStatus['conditions'],
  ): void {
    const brokersReady = (all: ConfigurationStatus['conditions'] = []) =>
      all.find(({ type }) => type === 'BrokersReady')
    const condition = brokersReady(conditions)
    if (condition === undefined || !EVENT_REASONS.has(condition.reason)) return
    const { reason, message } = condition
    if (brokersReady(status?.conditions)?.reason === reason) return
    const regarding = { kind: 'Configuration', key }
    this.#options.events.record({ regarding, type: 'Warning', reason, message }, metadata.uid)
  }

  /** The reports that count, and after how many milliseconds that changes by time alone. */
  #reportsOf(
    key: ObjectKey,
    { metadata, status: before }: Pick<Configuration, 'metadata' | 'status'>,
    instances: readonly Instance[],
  ) {
    const { state, nodeGraceMs } = this.#options
    // A controller that has just started does not know for how long agents are not there.
    const awayMs = isReadySilent(before) ? 0 : Math.min(AWAY_MS, nodeGraceMs)
    const reported: ReportedNode[] = []
    let changeInMs: number | undefined
    for (const { report, presence } of state.reportIndex.of(key)) {
      const entry = report.configurations[key]
      if (presence === 'deleted' || entry?.uid !== metadata.uid) continue
      const { uid: _uid, deviceProblems: _problems, ...status } = entry
      const { name: node } = report.metadata
      if (presence === 'left') {
        const leftMs = graceLeftMs(node, nodeGraceMs, this.#options)
        // The report stays for the claims of Pods. An earlier leader may have removed the node.
        const isOut = status.devices > 0 && !instances.some(({ spec }) => spec.nodes.includes(node))
        if (isOut || leftMs === 0) continue
        changeInMs = earliest(changeInMs, leftMs)
      }
      const silentForMs = silentMs(node, this.#options)
      const agent = agentState(silentForMs, awayMs)
      if (agent === 'away') changeInMs = earliest(changeInMs, awayMs - (silentForMs ?? 0))
      const agents = presence === 'present' ? [] : state.reportIndex.agentsOn(node)
      const problem = presence === 'exchanged' ? problemOf(agents) : {}
      const absence = absenceText(presence, { isNodeReady: state.isReady(node), agents })
      reported.push({ node, status, agent, absence, ...problem })
    }
    return { reported, changeInMs }
  }

  /**
   * The nodes whose agents have never reported, and are not ready for longer than a start takes;
   * and after how many milliseconds the next one counts.
   */
  #unreportedOf({ metadata, status: before }: Pick<Configuration, 'metadata' | 'status'>) {
    const { state } = this.#options
    const silent: ReportedNode[] = []
    let silentInMs: number | undefined
    for (const [node, pod] of state.reportIndex.unreported) {
      const isPullFailed = pod.problem?.reason === 'ImagePullFailed'
      const startMs = isPullFailed ? PULL_FAILED_MS : START_MS
      const waitMs = startMs - (unreportedMs(node, this.#options) ?? 0)
      const entry = before?.nodes[node]
      // A controller that has just started does not know for how long.
      const wasSilent = entry !== undefined && isSilentEntry(entry)
      if (waitMs > 0 && !wasSilent) {
        silentInMs = earliest(silentInMs, waitMs)
        continue
      }
      const status = { observedGeneration: metadata.generation, devices: 0, conditions: [] }
      const unreported =
        pod.problem?.message ?? absenceText('silent', { isNodeReady: true, agents: [pod] })
      silent.push({ node, status, agent: 'silent', unreported, ...problemOf([pod]) })
    }
    return { silent, silentInMs }
  }
}

/** A list is written as a whole: the conditions of other programs come after those of a summary. */
function withConditions(
  status: Pick<ConfigurationStatus, 'conditions'>,
  others: readonly InstanceCondition[],
): Readonly<Record<string, unknown>> {
  return { ...status, conditions: [...status.conditions, ...others] }
}

/** Why the agent that should have taken the place of another does not run. */
function problemOf(agents: readonly Pod[]): Pick<ReportedNode, 'problem'> {
  const [problem] = agents.flatMap((agent) => (agent.ready ? [] : (agent.problem ?? [])))
  return problem === undefined ? {} : { problem }
}

function agentState(silentForMs: number | undefined, awayMs: number): ReportedNode['agent'] {
  if (silentForMs === undefined) return 'present'
  return silentForMs < awayMs ? 'away' : 'silent'
}
