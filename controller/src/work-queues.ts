import {
  ApiUnreachableError,
  type NodeName,
  type ObjectKey,
  type RecheckAfter,
  ReconcileQueue,
} from '@akrijs/kube'
import { kindOf, messageOf } from '@akrijs/runtime'
import { OutdatedResourceError } from './errors.js'
import type { ControlledKind } from './metrics.js'
import type { Term } from './term.js'

type Reconcile<Key> = (
  key: Key,
  term: Term,
  signal: AbortSignal,
  recheckAfter: RecheckAfter,
) => Promise<void>

/**
 * How many objects each queue reconciles at once. Namespaces take turns: a slow webhook for the
 * objects of a namespace must not stop the brokers of others.
 */
const CONCURRENCY = 8

/**
 * The queues of a term: one for each part of the work. A Service that is refused must not hold up
 * the brokers.
 */
export class WorkQueues {
  readonly #term: Term
  readonly #signal: AbortSignal
  readonly #runs: (() => Promise<void>)[] = []

  /** @param signal aborted at the end of the term */
  constructor(term: Term, signal: AbortSignal) {
    this.#term = term
    this.#signal = signal
  }

  /**
   * Makes a queue, which works from {@link run} on.
   * @param gatherMs how long a key waits for further changes, in milliseconds
   */
  queueOf<Key extends ObjectKey | NodeName = ObjectKey>(
    kind: ControlledKind,
    reconcile: Reconcile<Key>,
    gatherMs = 0,
    onFailure?: (key: Key, error: unknown) => void,
  ): ReconcileQueue<Key> {
    const term = this.#term
    const { clock, log, metrics } = term
    const queue = new ReconcileQueue<Key>({
      clock,
      concurrency: CONCURRENCY,
      gatherMs,
      groupOf: namespaceOf,
      async reconcile(key, signal, recheckAfter) {
        const work = () => reconcile(key, term, signal, recheckAfter)
        await (metrics === undefined ? work() : metrics.measure(kind, work))
        return {}
      },
      onError(key, err, retryInMs) {
        // The writer of statuses has logged this error once for all objects.
        if (!OutdatedResourceError.is(err))
          log.warn({ kind, key, err, retryInMs: Math.round(retryInMs) }, 'reconcile failed')
        onFailure?.(key, err)
      },
    })
    metrics?.follow(kind, () => queue.depth, this.#signal)
    this.#runs.push(() => queue.run(this.#signal))
    return queue
  }

  /** The same, whose failures are Events of the objects. */
  workloadQueue(
    kind: 'Configuration' | 'Instance',
    reconcile: Reconcile<ObjectKey>,
    gatherMs?: number,
  ): ReconcileQueue<ObjectKey> {
    const { state, events } = this.#term
    const { cache } = kind === 'Instance' ? state.instances : state.configurations
    return this.queueOf(kind, reconcile, gatherMs, (key, error) => {
      // An outage of the API server is no failure of the object.
      if (ApiUnreachableError.is(error)) return
      const reason = kindOf(error) === 'bug' ? 'InternalError' : 'BrokerFailed'
      events.record(
        { regarding: { kind, key }, type: 'Warning', reason, message: messageOf(error) },
        cache.get(key)?.metadata.uid,
      )
    })
  }

  /** Works in all queues until the term ends. */
  async run(): Promise<void> {
    await Promise.all(this.#runs.map((run) => run()))
  }
}

/** Empty for a node. */
function namespaceOf(key: ObjectKey | NodeName): string {
  return key.slice(0, Math.max(0, key.indexOf('/')))
}
