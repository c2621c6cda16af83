import { type Configuration, heldSlots, holderOf, type Instance } from '@akrijs/api'
import { ReconcileMetrics } from '@akrijs/runtime/program'
import { Counter, Gauge, Histogram } from 'prom-client'
import { type NodeProblems, problemOf } from '../report/node-problems.js'
import {
  type AgentObserver,
  NODE_PROBLEMS,
  type NodeProblem,
  type PluginLevel,
  RECONCILED_KINDS,
  type ReconciledKind,
} from '../report/observer.js'
import type { Agent } from './agent.js'

/** The cluster of the agent, for gauges that are computed at each scrape. */
interface MeasuredCluster {
  readonly configurations: { list(): readonly Configuration[] }
  readonly instances: { list(): readonly Instance[] }
  /** Milliseconds since the last answer of the API server, or since the start of the agent. */
  readonly silentForMs: number
}

const RESULTS = ['Success', 'Fail'] as const
type Result = (typeof RESULTS)[number]
/**
 * The most Configurations, and the most handlers, with series: the author of one Configuration
 * could give it new names without end. Beyond that, all series start again.
 */
const MAX_SERIES = 2000
const LEVELS: readonly PluginLevel[] = ['instance', 'configuration']

/** The metrics of an agent. The first three names are those of the existing system. */
export class AgentMetrics implements AgentObserver {
  readonly #reconciles = new ReconcileMetrics(RECONCILED_KINDS)
  /** The others register here too. */
  readonly registry = this.#reconciles.registry
  readonly #cluster: MeasuredCluster
  /** The agent, after its start. */
  agent: Pick<Agent, 'registry' | 'queued'> | undefined
  readonly #nodeProblems: Pick<NodeProblems, 'add'> | undefined
  readonly #responseTime = new Histogram({
    name: 'akri_discovery_response_time',
    help: 'Seconds from asking a handler to its first list',
    labelNames: ['configuration'],
    buckets: [0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 60],
    registers: [this.registry],
    collect: () => {
      const names = this.#cluster.configurations.list().map(({ metadata }) => metadata.name)
      const present = new Set<string>(names)
      for (const configuration of this.#configurations)
        if (!present.has(configuration) && this.#configurations.delete(configuration))
          this.#responseTime.remove({ configuration })
    },
  })
  /** Those that have a series there. */
  readonly #configurations = new Set<string>()
  /** The answers of each handler. */
  readonly #answers = new Map<string, Record<Result, number>>()
  readonly allocated = this.#counter('akri_allocations_total', 'Allocate calls of the kubelet', {
    level: LEVELS,
    result: ['granted', 'refused'],
  })
  readonly claimed = this.#counter('akri_slot_claims_total', 'Slots that were claimed', {
    level: LEVELS,
    outcome: ['claimed', 'taken', 'gone'],
  })
  readonly reclaimed = this.#counter('akri_slot_reclaims_total', 'Slots that were taken back', {})
  readonly restored = this.#counter(
    'akri_slot_restores_total',
    'Claims of running containers that an Instance had lost',
    { outcome: ['restored', 'taken', 'unknown'] },
  )
  readonly registered = this.#counter(
    'akri_plugin_registrations_total',
    'Registrations with the kubelet',
    { result: ['accepted', 'failed'] },
  )
  readonly #problems = this.#counter(
    'akri_node_problems_total',
    'Failures on the node beside single devices: of its disk, its kubelet, and the API server',
    { problem: Object.keys(NODE_PROBLEMS) },
  )
  readonly #requests = this.#counter('akri_api_requests_total', 'Requests to the API server', {
    method: [],
    status: [],
  })

  constructor(node: string, cluster: MeasuredCluster, problems?: Pick<NodeProblems, 'add'>) {
    this.#cluster = cluster
    this.#nodeProblems = problems
    const { signal } = new AbortController()
    for (const kind of RECONCILED_KINDS)
      this.#reconciles.follow(kind, () => this.agent?.queued(kind) ?? 0, signal)
    const ofNode = () =>
      cluster.instances.list().filter(({ spec }) => spec.nodes.some((each) => each === node))
    const answers = this.#answers
    new Counter({
      name: 'akri_discovery_response_result',
      help: 'Answers of handlers',
      labelNames: ['discovery_handler_name', 'result'],
      registers: [this.registry],
      collect() {
        const handlers = cluster.configurations.list().map(({ spec }) => spec.discoveryHandler.name)
        this.reset()
        // A handler that is configured has a series before its first answer.
        for (const handler of new Set(handlers))
          for (const result of RESULTS)
            this.inc(
              { discovery_handler_name: handler, result },
              answers.get(handler)?.[result] ?? 0,
            )
      },
    })
    this.#gauge(
      'akri_instance_count',
      'Instances that this node is in',
      ['configuration', 'is_shared'],
      (gauge) => {
        for (const { metadata } of cluster.configurations.list())
          for (const shared of ['true', 'false'])
            gauge.set({ configuration: metadata.name, is_shared: shared }, 0)
        for (const { spec } of ofNode())
          gauge.inc({ configuration: spec.configurationName, is_shared: String(spec.shared) })
      },
    )
    this.#gauge(
      'akri_slots',
      'Slots of these Instances: free, held by this node, held by others',
      ['configuration', 'holder'],
      (gauge) => {
        for (const { spec } of ofNode()) {
          const usages = Object.values(spec.deviceUsage)
          const held = heldSlots(spec.deviceUsage)
          const here = usages.filter((usage) => holderOf(usage) === node).length
          const total = Math.max(spec.capacity, usages.length)
          const configuration = spec.configurationName
          gauge.inc({ configuration, holder: 'none' }, total - held)
          gauge.inc({ configuration, holder: 'this_node' }, here)
          gauge.inc({ configuration, holder: 'other_node' }, held - here)
        }
      },
    )
    this.#gauge(
      'akri_api_silence_seconds',
      'Seconds since the last answer of the API server, or since the start of the agent',
      [],
      (gauge) => gauge.set(cluster.silentForMs / 1000),
    )
    this.#gauge(
      'akri_handler_endpoints',
      'Handlers that are loaded or have registered',
      [],
      (gauge) => gauge.set(this.agent?.registry.size ?? 0),
    )
  }

  handlerAnswered(configuration: string, handler: string, seconds: number | undefined): void {
    this.#answered(handler, 'Success')
    if (seconds === undefined) return
    if (this.#configurations.size >= MAX_SERIES && !this.#configurations.has(configuration)) {
      this.#configurations.clear()
      this.#responseTime.reset()
    }
    this.#configurations.add(configuration)
    this.#responseTime.observe({ configuration }, seconds)
  }

  handlerFailed(handler: string): void {
    this.#answered(handler, 'Fail')
  }

  #answered(handler: string, result: Result): void {
    if (this.#answers.size >= MAX_SERIES && !this.#answers.has(handler)) this.#answers.clear()
    const before = this.#answers.get(handler) ?? { Success: 0, Fail: 0 }
    this.#answers.set(handler, { ...before, [result]: before[result] + 1 })
  }

  failed(otherwise: NodeProblem, error: unknown): void {
    const problem = problemOf(error, otherwise)
    this.#problems(problem)
    this.#nodeProblems?.add(problem, error)
  }

  reconciling<T>(kind: ReconciledKind, work: () => Promise<T>): Promise<T> {
    return this.#reconciles.measure(kind, work)
  }

  /** @param status undefined without an answer */
  apiAnswered(method: string, status: number | undefined): void {
    this.#requests(method, String(status ?? 'none'))
  }

  /**
   * @param labels the values of each label. Their series start at 0, so that a rate sees the first
   * event.
   * @returns counts an event by the values of its labels
   */
  #counter(name: string, help: string, labels: Record<string, readonly string[]>) {
    const labelNames = Object.keys(labels)
    const counter = new Counter({ name, help, labelNames, registers: [this.registry] })
    let series: Record<string, string>[] = [{}]
    for (const [label, values] of Object.entries(labels))
      series = series.flatMap((before) => values.map((value) => ({ ...before, [label]: value })))
    for (const values of series) counter.inc(values, 0)
    return (...values: readonly string[]) => counter.labels(...values).inc()
  }

  #gauge(name: string, help: string, labelNames: string[], collect: (gauge: Gauge) => void): void {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        this.reset()
        collect(this)
      },
    })
  }
}
