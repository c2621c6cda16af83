import { Counter, Gauge, Registry } from 'prom-client'
import { isEnded } from './brokers/pod-plan.js'
import { controllerOf, LABELS } from './labels.js'
import type { Pod } from './objects.js'

/** What the gauges are computed from, whenever somebody looks. */
export interface MeasuredState {
  /** The Pods that carry our label. */
  pods(): readonly Pod[]
  leads(): boolean
  /** Since when the API server has not been heard of, in milliseconds; undefined before it first was. */
  apiSilenceMs(): number | undefined
}

/** What a controller counts. The first name is the existing system's. */
export class ControllerMetrics {
  readonly registry = new Registry()
  readonly #requests: Counter<'method' | 'status'>

  constructor(state: MeasuredState) {
    this.#requests = new Counter({
      name: 'akri_api_requests_total',
      help: 'Requests to the API server',
      labelNames: ['method', 'status'],
      registers: [this.registry],
    })
    this.#gauge(
      'akri_broker_pod_count',
      'Broker Pods that have not ended',
      ['configuration', 'node'],
      (gauge) => {
        for (const pod of state.pods()) {
          const configuration = pod.metadata.labels?.[LABELS.configuration]
          // Whose label is ours without being anybody's is no broker.
          if (
            configuration === undefined ||
            controllerOf(pod.metadata) === undefined ||
            isEnded(pod)
          )
            continue
          gauge.inc({ configuration, node: pod.node || (pod.targetNode ?? '') })
        }
      },
    )
    this.#gauge(
      'akri_controller_leads',
      'Whether this replica does the work: 1 or 0',
      [],
      (gauge) => gauge.set(state.leads() ? 1 : 0),
    )
    this.#gauge(
      'akri_api_silence_seconds',
      'Since when the API server has not been heard of',
      [],
      (gauge) => {
        const silence = state.apiSilenceMs()
        if (silence !== undefined) gauge.set(silence / 1000)
      },
    )
  }

  apiAnswered(method: string, status: number): void {
    this.#requests.inc({ method, status: String(status) })
  }

  #gauge<Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    collect: (gauge: Gauge<Label>) => void,
  ) {
    new Gauge<Label>({
      name,
      help,
      labelNames: [...labelNames],
      registers: [this.registry],
      collect() {
        this.reset()
        collect(this)
      },
    })
  }
}
