import { isDeepStrictEqual } from 'node:util'
import type { Configuration, Instance, NodeStatus } from '@akrijs/api'
import {
  ApiError,
  keyOf,
  type NodeName,
  type ObjectKey,
  ReconcileQueue,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import { type Clock, type Logger, objectMessage } from '@akrijs/runtime'
import { isOwnedBy } from '../core/instances/instance-plan.js'
import { mergeStatus } from '../core/status/merge-status.js'
import { storedStatus } from '../core/status/stored-status.js'

interface StatusWriterOptions {
  readonly configurations: Reflector<Configuration>
  readonly instances: Reflector<Instance>
  readonly api: Resource
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
}

type Known = Pick<Configuration, 'metadata' | 'status'>

/** How long changes are gathered before they are written, in milliseconds. */
const GATHER_MS = 500

/**
 * Writes the status of Configurations on this node, and with it the summary for the cluster. A node
 * writes only if its own part has changed, or if it has changed an Instance that the summary
 * counts: otherwise all nodes would write the same.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions
  readonly #reports = new Map<ObjectKey, NodeStatus>()
  /** Invalid Configurations, with their problem. */
  readonly #invalid = new Map<ObjectKey, { readonly known: Known; readonly problem: string }>()
  /** The last report that was sent, and what the server stored of it. */
  readonly #sent = new Map<ObjectKey, { readonly report: NodeStatus; readonly stored: unknown }>()
  /** Configurations whose counts this node has changed. */
  readonly #changed = new Set<ObjectKey>()
  readonly #queue: ReconcileQueue<ObjectKey>

  /** @param timing of the queue, for tests */
  constructor(
    options: StatusWriterOptions,
    timing: ConstructorParameters<typeof ReconcileQueue>[1] = {},
  ) {
    this.#options = options
    const { clock, log } = options
    this.#queue = new ReconcileQueue<ObjectKey>(
      {
        clock,
        gatherMs: GATHER_MS,
        reconcile: async (key, signal) => {
          await this.#write(key, signal)
          return {}
        },
        onError: (configuration, error, retryInMs) => {
          const fields = { configuration, err: error, retryInMs }
          if (ApiError.is(error, 409)) log.debug(fields, 'status changed before the write')
          else log.warn(fields, 'status not written')
        },
      },
      timing,
    )
  }

  async run(signal: AbortSignal): Promise<void> {
    const { configurations } = this.#options
    configurations.onChange((key) => {
      if (configurations.get(key) === undefined) this.#forget(key)
      else if (this.#reports.has(key) && this.#isDue(key)) this.#queue.add(key)
    }, signal)
    await this.#queue.run(signal)
  }

  report(key: ObjectKey, report: NodeStatus): void {
    this.#reports.set(key, storedStatus(report))
    if (this.#isDue(key)) this.#queue.add(key)
  }

  /** Notes that this node has written Instances of the Configuration. */
  changed(key: ObjectKey): void {
    this.#changed.add(key)
    this.#queue.add(key)
  }

  valid(configuration: Configuration): void {
    this.#invalid.delete(keyOf(configuration))
  }

  invalid(known: Known, problem: string): void {
    const key = keyOf(known)
    this.#invalid.set(key, { known, problem: objectMessage(problem) })
    if (this.#isDue(key)) this.#queue.add(key)
  }

  #forget(key: ObjectKey): void {
    this.#reports.delete(key)
    this.#changed.delete(key)
    this.#invalid.delete(key)
    this.#sent.delete(key)
  }

  #isDue(key: ObjectKey): boolean {
    if (this.#changed.has(key)) return true
    const report = this.#reportOf(key)
    if (report === undefined) return false
    const known = this.#known(key)?.status?.nodes[this.#options.node]
    const sent = this.#sent.get(key)
    // A custom resource of an earlier version drops fields that it does not have.
    if (sent !== undefined && isDeepStrictEqual(sent.report, report))
      return !isDeepStrictEqual(sent.stored, known)
    return !isDeepStrictEqual(known, report)
  }

  #known(key: ObjectKey): Known | undefined {
    return this.#invalid.get(key)?.known ?? this.#options.configurations.get(key)
  }

  #reportOf(key: ObjectKey): NodeStatus | undefined {
    const wrong = this.#invalid.get(key)
    if (wrong === undefined) return this.#reports.get(key)
    const ready = {
      type: 'Ready',
      status: 'False',
      reason: 'InvalidConfiguration',
      message: wrong.problem,
    } as const
    const before = this.#reports.get(key)
    return {
      observedGeneration: wrong.known.metadata.generation,
      devices: before?.devices ?? 0,
      conditions: [...(before?.conditions ?? []).filter(({ type }) => type !== 'Ready'), ready],
    }
  }

  async #write(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { configurations, instances, api, node, clock } = this.#options
    const known = this.#known(key)
    const report = this.#reportOf(key)
    if (known === undefined || report === undefined || !this.#isDue(key)) return
    this.#changed.delete(key)
    const owned = instances.list().filter((instance) => isOwnedBy(instance, known))
    const now = new Date(clock.wallMs()).toISOString()
    const status = mergeStatus({ configuration: known, instances: owned, node, report, now })
    if (isDeepStrictEqual(known.status, status)) return
    const { resourceVersion } = known.metadata
    // Only the part of this node is written. The version ensures that the summary counts the
    // current parts.
    // A merge patch keeps a field that it leaves out.
    const removed =
      report.leftOut === undefined && known.status?.nodes[node]?.leftOut !== undefined
        ? { leftOut: null }
        : {}
    const patch = {
      metadata: { resourceVersion },
      status: { ...status, nodes: { [node]: { ...report, ...removed } } },
    }
    try {
      const stored = configurations.observe(
        await api.patch(key, 'merge', patch, { signal, subresource: 'status' }),
      )
      this.#sent.set(key, { report, stored: stored?.status?.nodes[node] })
    } catch (error) {
      if (ApiError.is(error, 404)) return
      this.#changed.add(key)
      // Another node has written: its write is read before the retry.
      if (ApiError.is(error, 409)) configurations.observe(await api.get(key, { signal }))
      throw error
    }
  }
}
