import { X509Certificate } from 'node:crypto'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Verdict } from './review/admission-review.js'

/** The state that is read for each request of the metrics. */
interface MeasuredState {
  /** The served certificate, PEM; undefined before there is a certificate. */
  certificate(): string | undefined
  types(): { readonly source: string; readonly version: string }
}

const OPERATIONS: readonly string[] = ['CREATE', 'UPDATE', 'DELETE']
const OTHER_OPERATION = 'other'
type Outcome = Verdict['outcome'] | 'failed'
const OUTCOMES: readonly Outcome[] = ['allowed', 'denied', 'undecided', 'failed']

export class WebhookMetrics {
  readonly registry = new Registry()
  readonly #reviews = new Counter({
    name: 'akri_webhook_reviews_total',
    help: 'Reviews by outcome: allowed, denied, undecided (denied because a check failed), failed',
    labelNames: ['operation', 'outcome'],
    registers: [this.registry],
  })
  readonly #duration = new Histogram({
    name: 'akri_webhook_review_duration_seconds',
    help: 'Duration of reviews in seconds',
    buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3],
    registers: [this.registry],
  })

  readonly #requests = new Counter({
    name: 'akri_api_requests_total',
    help: 'Requests to the API server',
    labelNames: ['method', 'status'],
    registers: [this.registry],
  })

  constructor(state: MeasuredState) {
    // From 0 on, so that a rate sees the first review that fails.
    for (const operation of [...OPERATIONS, OTHER_OPERATION])
      for (const outcome of OUTCOMES) this.#reviews.inc({ operation, outcome }, 0)
    new Gauge({
      name: 'akri_webhook_certificate_expiry_timestamp_seconds',
      help: 'Expiry of the served certificate',
      registers: [this.registry],
      collect() {
        const certificate = state.certificate()
        // Not 0, which would be a time long ago.
        if (certificate === undefined) this.remove()
        else this.set(Date.parse(new X509Certificate(certificate).validTo) / 1000)
      },
    })
    new Gauge({
      name: 'akri_webhook_types_info',
      help:
        'Source of the Kubernetes types that specs are checked against: cluster, or bundled ' +
        'with the webhook',
      labelNames: ['source', 'version'],
      registers: [this.registry],
      collect() {
        this.reset()
        this.set({ ...state.types() }, 1)
      },
    })
  }

  /** @param status undefined without an answer */
  apiAnswered(method: string, status: number | undefined): void {
    this.#requests.inc({ method, status: String(status ?? 'none') })
  }

  reviewed(operation: string, outcome: Outcome, seconds: number): void {
    // The client of a review can send any text as operation.
    this.#reviews.inc({
      operation: OPERATIONS.includes(operation) ? operation : OTHER_OPERATION,
      outcome,
    })
    this.#duration.observe(seconds)
  }
}
