import { X509Certificate } from 'node:crypto'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Verdict } from './review/admission-review.js'

/** What is looked up whenever somebody asks for the metrics. */
export interface MeasuredState {
  /** PEM; undefined before there is one. */
  certificate(): string | undefined
  types(): { readonly source: string; readonly version: string }
}

export class WebhookMetrics {
  readonly registry = new Registry()
  readonly #reviews = new Counter({
    name: 'akri_webhook_reviews_total',
    help: 'Reviews that API servers asked for: allowed, denied, undecided (denied, as it could not be checked), failed',
    labelNames: ['operation', 'outcome'],
    registers: [this.registry],
  })
  readonly #duration = new Histogram({
    name: 'akri_webhook_review_duration_seconds',
    help: 'Seconds that a review takes',
    buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3],
    registers: [this.registry],
  })

  constructor(state: MeasuredState) {
    new Gauge({
      name: 'akri_webhook_certificate_expiry_timestamp_seconds',
      help: 'When the certificate that is served runs out',
      registers: [this.registry],
      collect() {
        const certificate = state.certificate()
        // Not 0, which would be long ago.
        if (certificate === undefined) this.remove()
        else this.set(Date.parse(new X509Certificate(certificate).validTo) / 1000)
      },
    })
    new Gauge({
      name: 'akri_webhook_types_info',
      help: 'Whose fields of Kubernetes Configurations are checked by: the cluster, or bundled with the webhook',
      labelNames: ['source', 'version'],
      registers: [this.registry],
      collect() {
        this.reset()
        this.set({ ...state.types() }, 1)
      },
    })
  }

  reviewed(operation: string, outcome: Verdict['outcome'] | 'failed', seconds: number): void {
    // Whoever asks may write there what he likes.
    this.#reviews.inc({
      operation: ['CREATE', 'UPDATE', 'DELETE'].includes(operation) ? operation : 'other',
      outcome,
    })
    this.#duration.observe(seconds)
  }
}
