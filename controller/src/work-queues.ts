import {
  ApiUnreachableError,
  keyParts,
  type NodeName,
  type ObjectKey,
  ReconcileQueue,
  type ReconcileResult,
} from '@akrijs/kube'
import { kindOf, messageOf } from '@akrijs/runtime'
import { OutdatedResourceError } from './errors.js'
import type { ControlledKind } from './metrics.js'
import type { ControllerOptions } from './term.js'

interface QueueOptions<Key> {
  /** How long a key waits for further changes, in milliseconds. @default 0 */
  readonly gatherMs?: number
  groupOf?(key: Key): string
  showFailure?(key: Key, error: unknown): void
}

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
  readonly #options: ControllerOptions
  readonly #signal: AbortSignal
  readonly #runs: (() => Promise<void>)[] = []

  constructor(options: ControllerOptions, end: AbortSignal) {
    this.#options = options
    this.#signal = end
  }

  /** Makes a queue, which works from {@link run} on. */
  queueOf<Key extends ObjectKey | NodeName>(
    kind: ControlledKind,
    reconcile: (key: Key, signal: AbortSignal) => Promise<ReconcileResult>,
    { gatherMs = 0, groupOf, showFailure }: QueueOptions<Key> = {},
  ): ReconcileQueue<Key> {
    const { clock, log, metrics } = this.#options
    const queue = new ReconcileQueue<Key>({
      clock,
      concurrency: CONCURRENCY,
      gatherMs,
      ...(groupOf && { groupOf }),
      reconcile: (key, signal) => {
        const work = () => reconcile(key, signal)
        return metrics === undefined ? work() : metrics.measure(kind, work)
      },
      onError(key, error, retryInMs) {
        // The writer of statuses has logged this error once for all objects.
        if (!OutdatedResourceError.is(error))
          log.warn({ kind, key, err: error, retryInMs: Math.round(retryInMs) }, 'reconcile failed')
        showFailure?.(key, error)
      },
    })
    metrics?.follow(kind, () => queue.depth, this.#signal)
    this.#runs.push(() => queue.run(this.#signal))
    return queue
  }

  /** Makes a queue whose failures are Events of the objects. */
  objectQueue(
    kind: 'Configuration' | 'Instance',
    reconcile: (key: ObjectKey, signal: AbortSignal) => Promise<ReconcileResult>,
    gatherMs = 0,
  ): ReconcileQueue<ObjectKey> {
    const { state, events } = this.#options
    return this.queueOf<ObjectKey>(kind, reconcile, {
      gatherMs,
      groupOf: namespaceOf,
      showFailure(key, error) {
        // An outage of the API server is no failure of the object.
        if (ApiUnreachableError.is(error)) return
        const { cache } = kind === 'Instance' ? state.instances : state.configurations
        events.record(
          {
            regarding: { kind, key },
            type: 'Warning',
            reason: kindOf(error) === 'bug' ? 'InternalError' : 'BrokerFailed',
            message: messageOf(error),
          },
          cache.get(key)?.metadata.uid,
        )
      },
    })
  }

  /** Works in all queues until the term ends. */
  async run(): Promise<void> {
    await Promise.all(this.#runs.map((run) => run()))
  }
}

export const namespaceOf = (key: ObjectKey) => keyParts(key).namespace
