import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { kindOf } from '../errors/errors.js'

const ERRORS = ['terminal', 'transient', 'bug'] as const

/** The metrics of work that is reconciled, by the kind of its objects. */
export class ReconcileMetrics {
  readonly registry = new Registry()
  readonly #duration = new Histogram({
    name: 'akri_reconcile_duration_seconds',
    help: 'Duration of reconciles in seconds, also of those that fail',
    labelNames: ['kind'],
    buckets: [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30],
    registers: [this.registry],
  })
  readonly #errors = new Counter({
    name: 'akri_reconcile_errors_total',
    help: 'Reconciles that failed: for good (terminal), for now (transient), by a mistake (bug)',
    labelNames: ['kind', 'error'],
    registers: [this.registry],
  })
  readonly #depths = new Map<string, Set<() => number>>()

  /** @param kinds their series start at 0, so that a rate sees the first event */
  constructor(kinds: readonly string[]) {
    for (const kind of kinds) {
      this.#depths.set(kind, new Set())
      this.#duration.zero({ kind })
      for (const error of ERRORS) this.#errors.inc({ kind, error }, 0)
    }
    const depths = this.#depths
    new Gauge({
      name: 'akri_reconcile_queue_depth',
      help: 'Objects that wait for a reconcile, without those that wait for a time',
      labelNames: ['kind'],
      registers: [this.registry],
      collect() {
        for (const [kind, queues] of depths)
          this.set(
            { kind },
            [...queues].reduce((sum, depth) => sum + depth(), 0),
          )
      },
    })
  }

  /** Does the work of one reconcile, and measures it. */
  async measure<T>(kind: string, work: () => Promise<T>): Promise<T> {
    const end = this.#duration.startTimer({ kind })
    try {
      return await work()
    } catch (error) {
      this.#errors.inc({ kind, error: kindOf(error) })
      throw error
    } finally {
      end()
    }
  }

  /** Counts the objects that wait in a queue, until the signal is aborted. */
  follow(kind: string, depth: () => number, signal: AbortSignal): void {
    const queues = this.#depths.get(kind) ?? new Set()
    this.#depths.set(kind, queues.add(depth))
    signal.addEventListener('abort', () => queues.delete(depth), { once: true })
  }
}
