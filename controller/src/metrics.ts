import { Counter, Gauge, Registry } from 'prom-client'
import { isEnded } from './brokers/pod-state.js'
import type { Pod } from './kubernetes-objects.js'
import { controllerOf, LABELS } from './labels.js'

/** The state that each scrape reads. */
interface MeasuredState {
  /** The Pods that have the controller's label. */
  pods(): readonly Pod[]
  leads(): boolean
  /** Time since the last answer of the API server, in milliseconds; undefined before the first. */
  apiSilenceMs(): number | undefined
}

/** The metrics of a controller. `akri_broker_pod_count` is also a metric of the existing system. */
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
          // A Pod without an owner is no broker, also with the controller's label.
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
      'Seconds since the last answer of the API server',
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
