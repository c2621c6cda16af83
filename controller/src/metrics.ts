import { Counter, Gauge, Registry } from 'prom-client'
import { isEnded } from './brokers/pod-state.js'
import type { Pod } from './kubernetes-objects.js'
import { LABELS } from './labels.js'
import { controllerOf } from './owners.js'

/** The state that each scrape reads. */
interface MeasuredState {
  /** The Pods with the labels of the controller and of a Configuration. */
  pods(): readonly Pod[]
  leads(): boolean
  /** Time since the last answer of the API server, in milliseconds; undefined before the first. */
  apiSilenceMs(): number | undefined
}

/** The metrics of a controller. `akri_broker_pod_count` is also a metric of the existing system. */
export class ControllerMetrics {
  readonly registry = new Registry()
  readonly #requests = new Counter({
    name: 'akri_api_requests_total',
    help: 'Requests to the API server',
    labelNames: ['method', 'status'],
    registers: [this.registry],
  })

  constructor(state: MeasuredState) {
    const registers = [this.registry]
    new Gauge({
      name: 'akri_broker_pod_count',
      help: 'Broker Pods that have not ended',
      labelNames: ['configuration', 'node'],
      registers,
      collect() {
        this.reset()
        for (const pod of state.pods()) {
          const configuration = pod.metadata.labels?.[LABELS.configuration]
          // A Pod without an owner is no broker, also with the controller's label.
          const isBroker = configuration !== undefined && controllerOf(pod.metadata) !== undefined
          if (!isBroker || isEnded(pod)) continue
          this.inc({ configuration, node: pod.node || (pod.targetNode ?? '') })
        }
      },
    })
    new Gauge({
      name: 'akri_controller_leads',
      help: 'Whether this replica does the work: 1 or 0',
      registers,
      collect() {
        this.set(state.leads() ? 1 : 0)
      },
    })
    new Gauge({
      name: 'akri_api_silence_seconds',
      help: 'Seconds since the last answer of the API server',
      registers,
      collect() {
        const silence = state.apiSilenceMs()
        if (silence !== undefined) this.set(silence / 1000)
      },
    })
  }

  apiAnswered(method: string, status: number): void {
    this.#requests.inc({ method, status: String(status) })
  }
}
