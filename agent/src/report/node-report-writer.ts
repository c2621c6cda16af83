import { isDeepStrictEqual } from 'node:util'
import {
  API_VERSION,
  APPLY_CUSTOM_RESOURCES,
  customResourceName,
  type DeviceProblem,
  type Membership,
  NODE_REPORTS,
  type NodeStatus,
  type PodToEnd,
  parseNodeReport,
  parseObjectMeta,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  mergePatchOf,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  ReconcileQueue,
  type ReconcileResult,
  Resource,
} from '@akrijs/kube'
import { type Clock, isRecord, Listeners, type Logger, untilAborted } from '@akrijs/runtime'
import type { SlotsInUse } from '../cluster/cluster.js'
import type { WatchedConfigurations } from '../cluster/watched-configurations.js'
import {
  type KnownStatus,
  reportContent,
  reportedByHandler,
  type StoredReport,
} from './report-content.js'

export interface NodeReportWriterOptions {
  readonly client: ApiClient
  readonly configurations: Pick<WatchedConfigurations, 'cache' | 'invalid'>
  readonly node: NodeName
  /** The name of the agent's Pod. @default the agent does not run in a Pod */
  readonly agentPod?: string | undefined
  /** The namespace of that Pod. @default unknown */
  readonly agentNamespace?: string | undefined
  readonly clock: Clock
  readonly log: Logger
  /** The number of nodes in the cluster, as far as it is known. */
  knownNodes(): number
  /** About shared Instances, in the order in which the report has room for them. */
  wishes(): ReadonlyMap<ObjectKey, Membership>
}

/** How long changes are gathered before they are written, in milliseconds: at random half of it. */
const GATHER_MS = 200
/**
 * For how much longer, in milliseconds for each other node of the cluster, and at most: all agents
 * report the same change, and each writes at a time of its own.
 */
const SPREAD = { perNodeMs: 2, mostMs: 1800 }
/**
 * For how much longer statuses are gathered. A shared device that comes or goes changes the status
 * at once, and leads to a wish later: half of this time is as long as the nodes take to create or
 * to leave an Instance. A wish is written without this wait, and the status with the wish.
 */
const STATUS_SPREAD = { perNodeMs: 20, mostMs: 4000 }
/** How long changes of the slots that containers use are gathered, in milliseconds. */
const SLOTS_MS = 10_000
/** When the report is read again, in milliseconds: another program may have deleted it. */
const REREAD_MS = 600_000
/** How long the end of a wish is waited for, in milliseconds: a report may not be writable. */
const WITHDRAWAL_MS = 5000
/** When an agent without the custom resource looks for it again, in milliseconds. */
const MISSING_MS = 60_000

/**
 * Writes the NodeReport of this node when something has changed. No other program should write the
 * report: the agent does not watch it, and reads it at its start and from time to time.
 */
export class NodeReportWriter {
  readonly #options: NodeReportWriterOptions
  readonly #reports: Resource
  readonly #key: ObjectKey
  readonly #random: () => number
  readonly #statuses = new Map<ObjectKey, KnownStatus>()
  #slots: SlotsInUse | undefined
  #podsToEnd: ReadonlyMap<ObjectKey, PodToEnd> = new Map()
  readonly #queue: ReconcileQueue<NodeName>
  /** The report as the server last showed it; undefined if it has to be read. */
  #stored: StoredReport | undefined
  #readAt = 0
  /** Called when the report on the server is known again, or cannot be known. */
  readonly #known = new Listeners()
  /** Whether the cluster has no custom resource for reports. */
  isMissing = false

  /** @param random of [0, 1), for tests */
  constructor(options: NodeReportWriterOptions, random: () => number = Math.random) {
    this.#options = options
    this.#random = random
    this.#reports = new Resource(options.client, NODE_REPORTS)
    this.#key = objectKey('', options.node)
    const { clock, log } = options
    this.#queue = new ReconcileQueue<NodeName>({
      clock,
      random,
      reconcile: (_, signal) => this.#reconcile(signal),
      onError: (_, error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'report of the node not written'),
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cache } = this.#options.configurations
    cache.onChange((key) => {
      if (cache.get(key) === undefined && this.#statuses.delete(key)) this.statusChanged()
    }, signal)
    // Before that, the absence of a Configuration means nothing.
    await untilAborted(cache.synced, signal)
    this.statusChanged()
    await this.#queue.run(signal)
    this.#store(undefined)
  }

  /** @param problems of devices. @default those of before that a handler reported */
  report(key: ObjectKey, status: NodeStatus, problems?: readonly DeviceProblem[]): void {
    const before = this.#statuses.get(key)
    const deviceProblems = problems ?? reportedByHandler(before?.deviceProblems)
    const reported = { ...status, ...(deviceProblems && { deviceProblems }) }
    // Each pass reports the status again: slots that wait go with no such report.
    if (isDeepStrictEqual(before, reported)) return
    this.#statuses.set(key, reported)
    this.statusChanged()
  }

  /** To be called after a Configuration became invalid, or is so no more. */
  statusChanged(): void {
    this.#writeIn(GATHER_MS + this.#spreadMs(SPREAD) + this.#spreadMs(STATUS_SPREAD))
  }

  /** To be called after there is a new wish about a shared Instance. */
  wishChanged(): void {
    this.#writeIn(GATHER_MS + this.#spreadMs(SPREAD))
  }

  /**
   * Resolves when the report on the server does not ask to leave this Instance, or after
   * {@link WITHDRAWAL_MS}. The controller would take a node out again that joins before.
   */
  async leaveWithdrawn(instance: ObjectKey): Promise<void> {
    const isWithdrawn = () =>
      this.#stored !== undefined && this.#stored.report?.memberships?.[instance]?.wish !== 'leave'
    if (isWithdrawn()) return
    const over = new AbortController()
    const withdrawn = new Promise<void>((resolve) =>
      this.#known.add(() => isWithdrawn() && resolve(), over.signal),
    )
    this.#writeIn(0)
    await Promise.race([withdrawn, this.#options.clock.sleep(WITHDRAWAL_MS, over.signal)])
    over.abort()
  }

  reportSlots(slots: SlotsInUse): void {
    // Each answer of the kubelet tells them, and a write would take wishes back at that time.
    if (isDeepStrictEqual(this.#slots, slots)) return
    this.#slots = slots
    this.#writeIn(SLOTS_MS)
  }

  reportPodsToEnd(pods: ReadonlyMap<ObjectKey, PodToEnd>): void {
    if (pods.size + this.#podsToEnd.size === 0) return
    this.#podsToEnd = pods
    this.#writeIn(GATHER_MS)
  }

  #writeIn(ms: number): void {
    this.#queue.add(this.#options.node, ms)
  }

  #spreadMs({ perNodeMs, mostMs }: typeof SPREAD): number {
    return Math.min(mostMs, perNodeMs * (this.#options.knownNodes() - 1))
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult> {
    const now = this.#options.clock.monotonicMs()
    if (!this.isMissing || this.#readAt + MISSING_MS <= now) await this.#update(now, signal)
    const ms = this.isMissing ? this.#readAt + MISSING_MS - now : REREAD_MS
    // Agents that start together do not ask together.
    return { requeueAfterMs: ms * (1 + this.#random() / 2) }
  }

  async #update(now: number, signal: AbortSignal): Promise<void> {
    if (this.#stored === undefined || this.#readAt + REREAD_MS <= now)
      this.#store(await this.#reports.get(this.#key, { signal }))
    const { cache, invalid } = this.#options.configurations
    const content = reportContent({
      ...this.#options,
      statuses: this.#statuses,
      invalid,
      memberships: this.#options.wishes(),
      slots: this.#slots,
      podsToEnd: this.#podsToEnd,
      stored: this.#stored,
      uidOf: (key) => cache.get(key)?.metadata.uid,
    })
    const changes = mergePatchOf(this.#stored?.fields ?? {}, content)
    if (changes !== undefined) await this.#write(content, changes, signal)
  }

  async #write(content: object, changes: object, signal: AbortSignal): Promise<void> {
    const isNew = this.#stored?.report === undefined
    // After a failure, the server may or may not have stored the write.
    this.#stored = undefined
    try {
      const stored = isNew
        ? await this.#create(content, signal)
        : await this.#reports
            .patch(this.#key, 'merge', changes, { signal })
            .catch((error: unknown) => {
              if (!ApiError.is(error, 404)) throw error
              return this.#create(content, signal)
            })
      this.isMissing = false
      this.#store(stored)
    } catch (error) {
      if (!ApiError.is(error, 404)) throw error
      const place = { resource: customResourceName(NODE_REPORTS), install: APPLY_CUSTOM_RESOURCES }
      if (!this.isMissing)
        this.#options.log.error({ ...place, err: error }, 'custom resource not installed')
      this.isMissing = true
      this.#store(undefined)
    }
  }

  async #create(content: object, signal: AbortSignal): Promise<unknown> {
    const { client, node: name } = this.#options
    const node = parseObjectMeta(await new Resource(client, NODES).get(this.#key, { signal }))
    const owner = node && { apiVersion: 'v1', kind: 'Node', name, uid: node.uid }
    const metadata = { name, ...(owner && { ownerReferences: [owner] }) }
    const object = { apiVersion: API_VERSION, kind: 'NodeReport', metadata, ...content }
    return this.#reports.create('', object, { signal })
  }

  /** @param object undefined if no report on the server counts */
  #store(object: unknown): void {
    const { apiVersion: _, kind: __, metadata: ___, ...fields } = isRecord(object) ? object : {}
    this.#stored = { fields, report: parseNodeReport(object) }
    this.#readAt = this.#options.clock.monotonicMs()
    this.#known.tell()
  }
}
