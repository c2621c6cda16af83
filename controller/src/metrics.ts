import type { Condition, Configuration } from '@akrijs/api'
import { ReconcileMetrics } from '@akrijs/runtime/program'
import { Counter, Gauge } from 'prom-client'
import { ROLLING_OUT } from './brokers/broker-problem.js'
import { isEnded } from './brokers/broker-state.js'
import type { Pod } from './kubernetes-objects.js'
import { LABELS } from './labels.js'
import { controllerOf } from './owners.js'

/** The state that each scrape reads. */
interface MeasuredState {
  /** The Pods with the labels of the controller and of a Configuration. */
  pods(): readonly Pod[]
  configurations(): readonly Pick<Configuration, 'metadata' | 'status'>[]
  leads(): boolean
  /** Milliseconds since the last answer of the API server, or since the start of the program. */
  apiSilenceMs(): number
}

/** The kinds of objects that a controller reconciles. */
const KINDS = ['Configuration', 'Instance', 'Node', 'NodeReport'] as const
export type ControlledKind = (typeof KINDS)[number]

const STATUSES = ['True', 'False', 'Unknown'] as const
/** The labels of each gauge. */
const GAUGES = {
  akri_broker_pod_count: ['configuration', 'node'],
  akri_configurations: ['condition', 'status'],
  akri_silent_nodes: [],
  akri_configuration_problem: ['configuration_namespace', 'configuration', 'condition'],
  akri_controller_leads: [],
  akri_api_silence_seconds: [],
}
/** The most conditions that have a series of their own. */
const MAX_PROBLEMS = 200
/** The most Configurations whose restarts have series of their own. */
const MAX_RESTARTED = 500

/** The metrics of a controller. `akri_broker_pod_count` is also a metric of the existing system. */
export class ControllerMetrics {
  readonly #reconciles = new ReconcileMetrics(KINDS)
  /** The others register here too. */
  readonly registry = this.#reconciles.registry
  readonly #state: MeasuredState
  readonly #requests = new Counter({
    name: 'akri_api_requests_total',
    help: 'Requests to the API server',
    labelNames: ['method', 'status'],
    registers: [this.registry],
  })
  readonly #restarts: Counter<'configuration' | 'what'>
  readonly #restarted = new Set<string>()
  /** The restarts of the containers of each Pod at the last scrape, by uid. */
  #containerRestarts: ReadonlyMap<string, number> | undefined

  constructor(state: MeasuredState) {
    this.#state = state
    const registers = [this.registry]
    const gauge = (name: keyof typeof GAUGES, help: string, collect: (this: Gauge) => void) =>
      new Gauge({ name, help, labelNames: GAUGES[name], registers, collect })
    const followContainers = () => this.#followContainers()
    this.#restarts = new Counter({
      name: 'akri_broker_restarts_total',
      help: 'Broker Pods that took the place of an ended Pod, and restarts of their containers',
      labelNames: ['configuration', 'what'],
      registers,
      collect: followContainers,
    })
    gauge('akri_broker_pod_count', 'Broker Pods that have not ended', function () {
      this.reset()
      for (const { pod, configuration } of brokersOf(state))
        if (!isEnded(pod)) this.inc({ configuration, node: pod.node || (pod.targetNode ?? '') })
    })
    gauge(
      'akri_configurations',
      'Configurations by the status of each of their conditions',
      function () {
        this.reset()
        for (const status of STATUSES) this.set({ condition: 'Ready', status }, 0)
        for (const { status } of state.configurations()) {
          const { conditions = [] } = status ?? {}
          for (const { type, status: is } of conditions) this.inc({ condition: type, status: is })
          if (!hasReady(conditions)) this.inc({ condition: 'Ready', status: 'Unknown' })
        }
      },
    )
    gauge(
      'akri_silent_nodes',
      'Nodes whose agent is not there: the most of any Configuration',
      function () {
        const counts = state.configurations().map(({ status }) => status?.nodeCounts?.silent ?? 0)
        this.set(counts.reduce((most, count) => Math.max(most, count), 0))
      },
    )
    gauge(
      'akri_configuration_problem',
      `Conditions that are False, and Ready that is Unknown: ${MAX_PROBLEMS} at most; 1`,
      function () {
        this.reset()
        for (const { namespace, name, condition } of shownProblems(state.configurations()))
          this.set({ configuration_namespace: namespace, configuration: name, condition }, 1)
      },
    )
    gauge('akri_controller_leads', 'Whether this replica does the work: 1 or 0', function () {
      this.set(state.leads() ? 1 : 0)
    })
    gauge(
      'akri_api_silence_seconds',
      'Seconds since the last answer of the API server, or since the start of the controller',
      function () {
        this.set(state.apiSilenceMs() / 1000)
      },
    )
  }

  /** Does the work of one reconcile, and measures it. */
  measure<T>(kind: ControlledKind, work: () => Promise<T>): Promise<T> {
    return this.#reconciles.measure(kind, work)
  }

  /** Counts the objects that wait in a queue, until the signal is aborted. */
  follow(kind: ControlledKind, depth: () => number, signal: AbortSignal): void {
    this.#reconciles.follow(kind, depth, signal)
  }

  /** A broker Pod took the place of a Pod that had ended. */
  brokerRestarted(configuration: string): void {
    this.#countRestarts(configuration, 'pod', 1)
  }

  /** @param status undefined without an answer */
  apiAnswered(method: string, status: number | undefined): void {
    this.#requests.inc({ method, status: String(status ?? 'none') })
  }

  /** Restarts of before the first scrape are history. */
  #followContainers(): void {
    if (this.#restarted.size >= MAX_RESTARTED) this.#forgetDeleted()
    const before = this.#containerRestarts
    const now = new Map<string, number>()
    for (const { pod, configuration } of brokersOf(this.#state)) {
      const { containerRestarts, metadata } = pod
      now.set(metadata.uid, containerRestarts)
      const more = containerRestarts - (before?.get(metadata.uid) ?? 0)
      this.#countRestarts(configuration, 'container', before === undefined ? 0 : Math.max(0, more))
    }
    this.#containerRestarts = now
  }

  /** Makes room: Configurations that come and go must not hide the restarts of others. */
  #forgetDeleted(): void {
    const present = new Set<string>(this.#state.configurations().map((each) => each.metadata.name))
    for (const configuration of this.#restarted) {
      if (present.has(configuration)) continue
      this.#restarted.delete(configuration)
      for (const what of ['pod', 'container']) this.#restarts.remove({ configuration, what })
    }
  }

  #countRestarts(configuration: string, what: 'pod' | 'container', count: number): void {
    const isKnown = this.#restarted.has(configuration)
    if (!isKnown && this.#restarted.size >= MAX_RESTARTED) {
      this.#restarts.inc({ configuration: '', what }, count)
      return
    }
    if (!isKnown) {
      this.#restarted.add(configuration)
      for (const each of ['pod', 'container']) this.#restarts.inc({ configuration, what: each }, 0)
    }
    this.#restarts.inc({ configuration, what }, count)
  }
}

interface ShownProblem {
  readonly namespace: string
  readonly name: string
  readonly condition: Condition['type']
}

/** Namespaces take turns: one with many problems must not hide those of others. */
function shownProblems(
  configurations: readonly Pick<Configuration, 'metadata' | 'status'>[],
): readonly ShownProblem[] {
  const counts = new Map<string, number>()
  const found = configurations.flatMap(({ metadata: { namespace, name }, status }) =>
    problemsOf(status?.conditions ?? []).map((condition) => {
      const turn = counts.get(namespace) ?? 0
      counts.set(namespace, turn + 1)
      return { namespace, name, condition, turn }
    }),
  )
  return found.toSorted((a, b) => a.turn - b.turn).slice(0, MAX_PROBLEMS)
}

/** Without a report of an agent there is no condition. */
function hasReady(conditions: readonly Condition[]): boolean {
  return conditions.some(({ type }) => type === 'Ready')
}

/**
 * The conditions that call for an operator. While `Ready` is unknown, others are often unknown for
 * the same cause, so these do not count.
 */
function problemsOf(conditions: readonly Condition[]): readonly Condition['type'][] {
  const found = conditions.flatMap(({ type, status, reason }) => {
    // A roll-out that goes on is no problem, however long it takes.
    const isProblem = status === 'False' && reason !== ROLLING_OUT
    return isProblem || (status === 'Unknown' && type === 'Ready') ? [type] : []
  })
  return hasReady(conditions) ? found : ['Ready', ...found]
}

/** A Pod without an owner is no broker, also with the controller's label. */
function brokersOf(
  state: Pick<MeasuredState, 'pods'>,
): { readonly pod: Pod; readonly configuration: string }[] {
  return state.pods().flatMap((pod) => {
    const configuration = pod.metadata.labels?.[LABELS.configuration]
    return configuration === undefined || controllerOf(pod.metadata) === undefined
      ? []
      : [{ pod, configuration }]
  })
}
